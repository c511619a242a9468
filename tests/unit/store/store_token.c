/* SPDX-License-Identifier: BSD-3-Clause */
/* The token of a job from outside: its sources, which clients it admits, and the errors of the others. */
#include "time_limits.h"
#include "unit/store/token_store_support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "store/server/server.h"

#if defined(__has_include)
#if __has_include(<sodium.h>)
#include <sodium.h>
/* The functions that are looked up by name have the types of the library's header. */
#define DECLARES(member, function)                                                                                     \
    _Static_assert(__builtin_types_compatible_p(__typeof__(((struct tti_sodium *)0)->member), __typeof__(&function)),  \
                   #function)
DECLARES(init, sodium_init);
DECLARES(hash, crypto_hash_sha256);
DECLARES(mac, crypto_auth_hmacsha256);
DECLARES(mac_verify, crypto_auth_hmacsha256_verify);
DECLARES(encrypt, crypto_aead_chacha20poly1305_ietf_encrypt);
DECLARES(decrypt, crypto_aead_chacha20poly1305_ietf_decrypt);
_Static_assert(crypto_hash_sha256_BYTES == TTI_SODIUM_KEY && crypto_auth_hmacsha256_BYTES == TTI_SODIUM_KEY &&
                   crypto_auth_hmacsha256_KEYBYTES == TTI_SODIUM_KEY,
               "sizes of keys");
_Static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == TTI_SODIUM_KEY &&
                   crypto_aead_chacha20poly1305_ietf_ABYTES == TTI_SODIUM_TAG &&
                   crypto_aead_chacha20poly1305_ietf_NPUBBYTES == TTI_SODIUM_NONCE,
               "sizes of the cipher");
#endif
#endif

/* Runs first: a process loads the library only once. */
static void without_libsodium_nothing_is_opened(void **state)
{
    (void)state;
    static const char *const libraries[] = {"/nonexistent/libsodium.so", "libc.so.6"};
    static const char *const words[] = {"no libsodium: /nonexistent/libsodium.so", "has no sodium_init"};
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct tti_store *store = NULL;
            tutti_error error;
            setenv("TUTTI_SODIUM_LIBRARY", libraries[i], 1);
            set_token(TOKEN_A);
            CHILD_CHECK(tti_store_open("tcp://127.0.0.1:0", true, LONG_MS, &store, &error) == TUTTI_NOT_AVAILABLE);
            CHILD_CHECK(!store && strstr(error.message, words[i]) && strstr(error.message, "libsodium23"));
            CHILD_CHECK(tti_store_open("tcp://127.0.0.1:1", false, LONG_MS, &store, &error) == TUTTI_NOT_AVAILABLE);
            set_token(NULL); /* without a token no library is needed */
            store = open_store("tcp://127.0.0.1:0", true);
            CHILD_CHECK(store);
            tti_store_release(store);
            _exit(0);
        }
        expect_child(child, 0);
    }
}

static void *get_later(void *argument)
{
    char value[8] = "";
    const tutti_status status = tti_store_get(argument, "later", value, sizeof(value), NULL, LONG_MS, NULL);
    return (void *)(intptr_t)(status == TUTTI_OK && strcmp(value, "here") == 0);
}

static void a_client_with_the_token_is_accepted(void **state)
{
    (void)state;
    char url[300];
    need_sodium();
    struct tti_store *served = serve_with(TOKEN_A, url);
    struct tti_store *client = open_store(url, false);
    assert_non_null(client);
    unsigned char *large = malloc(TTI_STORE_VALUE_MAX);
    unsigned char *copy = malloc(TTI_STORE_VALUE_MAX);
    size_t length = 0;
    tutti_error error;
    assert_true(large && copy);
    for (int i = 0; i < TTI_STORE_VALUE_MAX; i++) {
        large[i] = (unsigned char)(i * 7);
    }
    assert_int_equal(tti_store_set(client, "large", large, TTI_STORE_VALUE_MAX, NULL), TUTTI_OK);
    assert_int_equal(tti_store_set(client, "empty", NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(served, "large", copy, TTI_STORE_VALUE_MAX, &length, 0, NULL), TUTTI_OK);
    assert_int_equal(length, TTI_STORE_VALUE_MAX);
    assert_memory_equal(large, copy, TTI_STORE_VALUE_MAX);
    memset(copy, 0, 16);
    assert_int_equal(tti_store_get(served, "large", copy, 8, &length, 0, &error), TUTTI_PROTOCOL); /* no room for it */
    assert_memory_equal(copy, large, 8);
    assert_int_equal(copy[8], 0);
    assert_int_equal(tti_store_get(client, "empty", NULL, 0, &length, 0, NULL), TUTTI_OK);
    assert_int_equal(length, 0);
    assert_int_equal(tti_store_set(served, "empty", NULL, 0, NULL), TUTTI_BUSY);
    assert_int_equal(tti_store_get(client, "none", NULL, 0, NULL, 0, NULL), TUTTI_TIMEOUT);
    assert_int_equal(tti_store_remove(client, "large", NULL), TUTTI_OK);
    pthread_t thread; /* a get that waits has a connection, and therefore keys, of its own */
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, get_later, client), 0);
    assert_int_equal(tti_store_set(client, "later", "here", 5, NULL), TUTTI_OK);
    pthread_join(thread, &result);
    assert_non_null(result);
    tti_store_release(client);
    tti_store_release(served);
    free(large);
    free(copy);
}

/* Opens with another token and returns the error. */
static void expect_refused(const char *url, const char *token, const char *words)
{
    struct tti_store *store = NULL;
    tutti_error error;
    set_token(token);
    assert_int_equal(tti_store_open(url, false, LONG_MS, &store, &error), TUTTI_AUTH);
    assert_null(store);
    if (!strstr(error.message, words) || !strstr(error.message, url)) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    }
}

static void a_client_without_the_token_is_refused(void **state)
{
    (void)state;
    char url[300];
    need_sodium();
    struct tti_store *served = serve_with(TOKEN_A, url);
    const int64_t before = tti_server_auth_failures();
    expect_refused(url, TOKEN_B, "does not have the job token of this process (TUTTI_JOB_TOKEN)");
    expect_refused(url, NULL, "accepts only processes with the token of its job, and this process has none");
    while (tti_server_auth_failures() - before < 2) { /* the server notices the end of a client a little later */
        assert_int_equal(tti_store_get(served, "never", NULL, 0, NULL, 1, NULL), TUTTI_TIMEOUT);
    }
    tti_store_release(served);
    served = serve_with(NULL, url);
    expect_refused(url, TOKEN_A, "is served without a token");
    struct tti_store *client = NULL;
    set_token(NULL);
    client = open_store(url, false); /* as ever */
    assert_non_null(client);
    tti_store_release(client);
    tti_store_release(served);
}

/* The serving side that finds its port taken becomes a client there only if that server proves the token. */
static void the_serving_rank_trusts_no_client_without_the_token(void **state)
{
    (void)state;
    char url[300];
    need_sodium();
    struct tti_store *served = serve_with(TOKEN_A, url);
    struct tti_store *store = NULL;
    tutti_error error;
    set_token(TOKEN_B);
    assert_int_equal(tti_store_open(url, true, LONG_MS, &store, &error), TUTTI_AUTH);
    set_token(TOKEN_A);
    store = open_store(url, true);
    assert_non_null(store);
    assert_false(tti_store_served_here(store));
    tti_store_release(store);
    /* One of several ports has the store of another job: the timeout names that port, not the last one without a
     * listener. */
    char several[300];
    snprintf(several, sizeof(several), "tcp://127.0.0.1:%d,1/job", (int)strtol(strrchr(url, ':') + 1, NULL, 10));
    set_token(TOKEN_B);
    assert_int_equal(tti_store_open(several, false, 0, &store, &error), TUTTI_TIMEOUT);
    if (!strstr(error.message, "does not have the job token")) {
        fail_msg("%s", error.message);
    }
    tti_store_release(served);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
    close(fd);
}

static void expect_token(const char *file, const char *token, tutti_status expected, const char *words)
{
    struct tti_secret secret;
    tutti_error error;
    set_token(token);
    if (file) {
        setenv(TTI_TOKEN_FILE_VARIABLE, file, 1);
    }
    const tutti_status status = tti_secret_read(&secret, &error);
    if (status != expected || secret.known != (status == TUTTI_OK && (file || token)) ||
        (status != TUTTI_OK && !strstr(error.message, words))) {
        fail_msg("%d: \"%s\", not %d: \"%s\"", status, status == TUTTI_OK ? "" : error.message, expected, words);
    }
    unsetenv(TTI_TOKEN_FILE_VARIABLE);
}

static void a_token_must_be_one(void **state)
{
    (void)state;
    char long_one[TTI_TOKEN_MAX + 2];
    need_sodium();
    memset(long_one, 'x', sizeof(long_one));
    long_one[TTI_TOKEN_MAX + 1] = '\0';
    expect_token(NULL, NULL, TUTTI_OK, "");
    expect_token(NULL, "", TUTTI_INVALID_ARGUMENT, "too few");
    expect_token(NULL, "fifteen bytes..", TUTTI_INVALID_ARGUMENT, "TUTTI_JOB_TOKEN has too few");
    expect_token(NULL, "fifteen bytes..\n", TUTTI_INVALID_ARGUMENT, "too few");
    expect_token(NULL, "sixteen bytes...", TUTTI_OK, "");
    expect_token(NULL, long_one, TUTTI_INVALID_ARGUMENT, "too many");
    long_one[TTI_TOKEN_MAX] = '\0';
    expect_token(NULL, long_one, TUTTI_OK, "");
}

static void a_file_must_be_private(void **state)
{
    (void)state;
    char directory[] = "/tmp/tutti-token-XXXXXX";
    char path[64];
    char url[300];
    need_sodium();
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/token", directory);
    expect_token(path, NULL, TUTTI_SYSTEM, "cannot be opened: No such file");
    expect_token(directory, NULL, TUTTI_INVALID_ARGUMENT, "is not a file");
    write_file(path, TOKEN_A "\n", 0640);
    expect_token(path, NULL, TUTTI_AUTH, "is open to others (mode 640)");
    write_file(path, TOKEN_A "\n", 0602);
    expect_token(path, NULL, TUTTI_AUTH, "is open to others (mode 602)");
    write_file(path, "short\n", 0600);
    expect_token(path, NULL, TUTTI_INVALID_ARGUMENT, "TUTTI_JOB_TOKEN_FILE has too few");
    write_file(path, TOKEN_A "\n", 0400);
    expect_token(path, NULL, TUTTI_OK, "");
    expect_token(path, TOKEN_A, TUTTI_INVALID_ARGUMENT, "both TUTTI_JOB_TOKEN and TUTTI_JOB_TOKEN_FILE");
    struct tti_store *served = serve_with(TOKEN_A, url); /* a file and a variable give the same token */
    set_token(NULL);
    setenv(TTI_TOKEN_FILE_VARIABLE, path, 1);
    struct tti_store *client = open_store(url, false);
    assert_non_null(client);
    tti_store_release(client);
    tti_store_release(served);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        expect_token(path, NULL, TUTTI_AUTH, "belongs to user 12345");
    }
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_token(path, NULL, TUTTI_INVALID_ARGUMENT, "is not a file"); /* and the open does not wait for a writer */
    remove_directory(directory);
}

static int shut_down(void **state)
{
    (void)state;
    set_token(NULL);
    tti_server_shutdown_all();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(without_libsodium_nothing_is_opened, shut_down),
        cmocka_unit_test_teardown(a_client_with_the_token_is_accepted, shut_down),
        cmocka_unit_test_teardown(a_client_without_the_token_is_refused, shut_down),
        cmocka_unit_test_teardown(the_serving_rank_trusts_no_client_without_the_token, shut_down),
        cmocka_unit_test_teardown(a_token_must_be_one, shut_down),
        cmocka_unit_test_teardown(a_file_must_be_private, shut_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
