/* SPDX-License-Identifier: BSD-3-Clause */
/* A store made of the caller's functions: their arguments, and their possible answers. */
#include "store_support.h"

#include "tutti/config.h"

struct user {
    char key[TTI_STORE_KEY_MAX + 1];
    char value[64];
    size_t length;
    size_t claimed; /* what get reports; 0 = the truth */
    int64_t timeout_ms;
    tutti_status answer;
};

static tutti_status user_set(void *user, const char *key, const void *value, size_t length)
{
    struct user *u = user;
    if (u->answer == TUTTI_OK) {
        snprintf(u->key, sizeof(u->key), "%s", key);
        memcpy(u->value, value, length);
        u->length = length;
    }
    return u->answer;
}

static tutti_status user_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                             int64_t timeout_ms)
{
    struct user *u = user;
    u->timeout_ms = timeout_ms;
    if (u->answer != TUTTI_OK) {
        return u->answer;
    }
    if (strcmp(key, u->key) != 0) {
        return TUTTI_TIMEOUT;
    }
    memcpy(value, u->value, u->length < capacity ? u->length : capacity);
    *length = u->claimed ? u->claimed : u->length;
    return TUTTI_OK;
}

static tutti_store_callbacks callbacks_of(struct user *user)
{
    return (tutti_store_callbacks){
        .size = (uint32_t)sizeof(tutti_store_callbacks), .user = user, .set = user_set, .get = user_get};
}

static void passes_through(void **state)
{
    (void)state;
    struct user user = {0};
    tutti_store_callbacks callbacks = callbacks_of(&user);
    struct tti_store *store = NULL;
    tutti_error error;
    char value[8] = "";
    size_t length = 0;
    assert_int_equal(tti_store_open_callbacks(&callbacks, &store, &error), TUTTI_OK);
    assert_string_equal(tti_store_url(store), "");
    assert_false(tti_store_can_pass_fds(store));
    assert_int_equal(tti_store_set(store, "key", "abc", 3, &error), TUTTI_OK);
    assert_string_equal(user.key, "key");
    assert_int_equal(tti_store_get(store, "key", value, sizeof(value), &length, 1234, &error), TUTTI_OK);
    assert_int_equal(user.timeout_ms, 1234);
    assert_int_equal(length, 3);
    assert_string_equal(value, "abc");
    assert_int_equal(tti_store_get(store, "other", value, sizeof(value), &length, 0, &error), TUTTI_TIMEOUT);
    assert_int_equal(tti_store_remove(store, "key", &error), TUTTI_OK);
    assert_int_equal(tti_store_put_fd(store, "key", 0, 1, &error), TUTTI_UNSUPPORTED);
    assert_int_equal(tti_store_set(store, "", "abc", 3, &error), TUTTI_INVALID_ARGUMENT);
    tti_store_release(store);
}

static void answers_are_not_trusted(void **state)
{
    (void)state;
    struct user user = {0};
    tutti_store_callbacks callbacks = callbacks_of(&user);
    struct tti_store *store = NULL;
    tutti_error error;
    char value[8] = "";
    size_t length = 55;
    assert_int_equal(tti_store_open_callbacks(&callbacks, &store, &error), TUTTI_OK);
    assert_int_equal(tti_store_set(store, "key", "abc", 3, &error), TUTTI_OK);
    user.answer = TUTTI_BUSY;
    assert_int_equal(tti_store_set(store, "key", "abc", 3, &error), TUTTI_BUSY);
    assert_non_null(strstr(error.message, "BUSY"));
    static const tutti_status nonsense[] = {-1, 4711, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        user.answer = nonsense[i];
        assert_int_equal(tti_store_set(store, "key", "abc", 3, &error), TUTTI_BACKEND);
        assert_int_equal(error.vendor_code, nonsense[i]);
        assert_int_equal(tti_store_get(store, "key", value, sizeof(value), &length, 0, &error), TUTTI_BACKEND);
    }
    user.answer = TUTTI_OK;
    user.claimed = sizeof(value) + 1;
    assert_int_equal(tti_store_get(store, "key", value, sizeof(value), &length, 0, &error), TUTTI_PROTOCOL);
    assert_int_equal(length, sizeof(value) + 1);
    length = 55;
    user.claimed = SIZE_MAX;
    assert_int_equal(tti_store_get(store, "key", value, sizeof(value), &length, 0, &error), TUTTI_PROTOCOL);
    assert_int_equal(length, 55);
    tti_store_release(store);
}

static void incomplete_callbacks_are_refused(void **state)
{
    (void)state;
    struct user user = {0};
    struct tti_store *store = NULL;
    tutti_error error;
    for (int i = 0; i < 5; i++) {
        tutti_store_callbacks callbacks = callbacks_of(&user);
        switch (i) {
        case 0:
            callbacks.size = 0;
            break;
        case 1:
            callbacks.size++;
            break;
        case 2:
            callbacks.flags = 1;
            break;
        case 3:
            callbacks.set = NULL;
            break;
        default:
            callbacks.get = NULL;
            break;
        }
        assert_int_equal(tti_store_open_callbacks(&callbacks, &store, &error), TUTTI_INVALID_ARGUMENT);
        assert_null(store);
    }
    assert_int_equal(tti_store_open_callbacks(NULL, &store, &error), TUTTI_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_through),
        cmocka_unit_test(answers_are_not_trusted),
        cmocka_unit_test(incomplete_callbacks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
