// SPDX-License-Identifier: BSD-3-Clause
// The functions that Python calls.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.hpp"
#include "futures.hpp"

namespace tutti_torch {

static c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                                                milliseconds timeout, std::string group_name,
                                                std::vector<uint64_t> global_ranks)
{
    auto options = c10::make_intrusive<c10d::Backend::Options>("tutti", timeout);
    options->group_name = std::move(group_name);
    options->global_ranks_in_group = std::move(global_ranks);
    return c10::make_intrusive<Backend>(store, rank, size, std::move(options));
}

// The backend that Python holds as a c10d::Backend.
static Backend &own(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    auto *self = dynamic_cast<Backend *>(backend.get());
    TORCH_CHECK_VALUE(self, "tutti: the backend of this group is ", backend->getBackendName(), ", not tutti");
    return *self;
}

static at::Tensor empty(const c10::intrusive_ptr<c10d::Backend> &backend, const std::vector<int64_t> &shape,
                        c10::ScalarType type)
{
    return own(backend).empty(shape, type);
}

static void reserve(const c10::intrusive_ptr<c10d::Backend> &backend, size_t bytes)
{
    own(backend).reserve(bytes);
}

static WorkPtr all_reduce(const c10::intrusive_ptr<c10d::Backend> &backend, const at::Tensor &tensor,
                          const c10d::AllreduceOptions &options, tutti_wire wire)
{
    return own(backend).allreduce_by_wire(tensor, options, wire);
}

static std::string describe(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    return own(backend).describe();
}

} // namespace tutti_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    tutti_torch::begin_futures();
    module.def("create", &tutti_torch::create, py::call_guard<py::gil_scoped_release>());
    module.def("empty", &tutti_torch::empty, py::call_guard<py::gil_scoped_release>());
    module.def("reserve", &tutti_torch::reserve, py::call_guard<py::gil_scoped_release>());
    module.def("all_reduce", &tutti_torch::all_reduce, py::call_guard<py::gil_scoped_release>());
    module.def("describe", &tutti_torch::describe);
    module.def("end_futures", &tutti_torch::end_futures, py::call_guard<py::gil_scoped_release>());
}
