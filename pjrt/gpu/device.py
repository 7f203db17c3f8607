"""Runs compiled kernels on an attached NVIDIA GPU by its driver alone, with no package of Python's.

    python device.py JOB RESULTS

JOB is a JSON file: {"programs": [...]}. A program has tensors, by name with their bytes and, where one begins with values, a file of them; launches
(cubin, function, grid, threads, shared memory, arguments); and what is wanted: "outputs", tensors that are written to files, or "time",
how often it is timed. RESULTS gets the device and, for each program, times in microseconds or why it failed. Without programs the device alone.
GDNGEN_CUDA_DRIVER names another library than libcuda.so.1.
"""

import ctypes
import json
import os
import sys

MAJOR, MINOR, SMS, CLOCK, L2 = 75, 76, 16, 13, 38  # attributes of a device
MOST_SHARED = 8  # attribute of a function
ROUNDS = 7
COPIES = 64  # of the tensors of a program, at most


class Failed(Exception):
    pass


class Driver:
    def __init__(self):
        name = os.environ.get("GDNGEN_CUDA_DRIVER", "libcuda.so.1")
        try:
            self.library = ctypes.CDLL(name)
        except OSError as e:
            raise Failed(f"no driver of NVIDIA is here: {e}")
        self("cuInit", 0)
        count = self.value("cuDeviceGetCount", ctypes.c_int)
        if count < 1:
            raise Failed("no GPU is attached")
        self.device = self.value("cuDeviceGet", ctypes.c_int, 0)
        context = self.value("cuDevicePrimaryCtxRetain", ctypes.c_void_p, self.device)
        self("cuCtxSetCurrent", ctypes.c_void_p(context))

    def __call__(self, name, *args):
        code = getattr(self.library, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise Failed(f"{name}: {(text.value or b'error').decode()} ({code})")

    def value(self, name, kind, *args):
        """What a call writes through its first argument."""
        x = kind()
        self(name, ctypes.byref(x), *args)
        return x.value

    def attribute(self, number):
        return self.value("cuDeviceGetAttribute", ctypes.c_int, number, self.device)

    def describe(self):
        name = ctypes.create_string_buffer(256)
        self("cuDeviceGetName", name, 256, self.device)
        return dict(name=name.value.decode(), capability=10 * self.attribute(MAJOR) + self.attribute(MINOR), sms=self.attribute(SMS), l2=self.attribute(L2),
                    memory=self.value("cuDeviceTotalMem_v2", ctypes.c_size_t, self.device), clock=self.attribute(CLOCK) * 1e3, driver=self.value("cuDriverGetVersion", ctypes.c_int))

    def allocate(self, size):
        return self.value("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(max(size, 16)))


class Program:
    """A program on the device: its tensors, once or in several copies, and its functions."""

    def __init__(self, driver, folder, program, copies):
        self.driver, self.program, self.held = driver, program, []
        self.sets = [{n: self.tensor(folder, t) for n, t in program["tensors"].items()} for _ in range(copies)]
        self.launches = []
        for l in program["launches"]:
            with open(os.path.join(folder, l["cubin"]), "rb") as f:
                module = driver.value("cuModuleLoadData", ctypes.c_void_p, f.read())
            function = driver.value("cuModuleGetFunction", ctypes.c_void_p, ctypes.c_void_p(module), l["function"].encode())
            if l["shared"]:
                driver("cuFuncSetAttribute", ctypes.c_void_p(function), MOST_SHARED, l["shared"])
            self.launches.append((l, function))

    def tensor(self, folder, t):
        at = self.driver.allocate(t["bytes"])
        self.held.append(at)
        if "file" in t:
            with open(os.path.join(folder, t["file"]), "rb") as f:
                data = f.read()
            self.driver("cuMemcpyHtoD_v2", ctypes.c_uint64(at), data, ctypes.c_size_t(len(data)))
        else:
            self.driver("cuMemsetD8_v2", ctypes.c_uint64(at), t.get("fill", 0), ctypes.c_size_t(t["bytes"]))
        return at

    def launch(self, stream, tensors):
        for l, function in self.launches:
            values = []
            for a in l["arguments"]:
                kind = a["kind"]
                values.append(ctypes.c_uint64(tensors[a["tensor"]]) if kind == "tensor" else ctypes.c_float(a["value"]) if kind == "f32" else ctypes.c_int32(int(a["value"])))
            values += [ctypes.c_uint64(0)] * 2  # memory for scratch and for profiles, which Triton's kernels name last
            pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
            self.driver("cuLaunchKernel", ctypes.c_void_p(function), *l["grid"], l["threads"], 1, 1, l["shared"], ctypes.c_void_p(stream), pointers, None)

    def run(self, folder):
        self.launch(None, self.sets[0])
        self.driver("cuCtxSynchronize")
        for name, file in self.program["outputs"].items():
            size = self.program["tensors"][name]["bytes"]
            data = ctypes.create_string_buffer(size)
            self.driver("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.sets[0][name]), ctypes.c_size_t(size))
            with open(os.path.join(folder, file), "wb") as f:
                f.write(data.raw)

    def time(self, repeats):
        """Microseconds of one run, of each round: repeats runs as one graph, over copies of the tensors in turns, so that caches are cold where there are enough."""
        d = self.driver
        stream = d.value("cuStreamCreate", ctypes.c_void_p, 1)
        for tensors in self.sets[:2]:
            self.launch(stream, tensors)
        d("cuStreamSynchronize", ctypes.c_void_p(stream))
        d("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), 2)
        for i in range(repeats):
            self.launch(stream, self.sets[i % len(self.sets)])
        graph = ctypes.c_void_p()
        d("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        ready = d.value("cuGraphInstantiateWithFlags", ctypes.c_void_p, graph, ctypes.c_uint64(0))
        events = [d.value("cuEventCreate", ctypes.c_void_p, 0) for _ in range(2)]
        times = []
        for _ in range(ROUNDS):
            d("cuEventRecord", ctypes.c_void_p(events[0]), ctypes.c_void_p(stream))
            d("cuGraphLaunch", ctypes.c_void_p(ready), ctypes.c_void_p(stream))
            d("cuEventRecord", ctypes.c_void_p(events[1]), ctypes.c_void_p(stream))
            d("cuEventSynchronize", ctypes.c_void_p(events[1]))
            ms = d.value("cuEventElapsedTime", ctypes.c_float, ctypes.c_void_p(events[0]), ctypes.c_void_p(events[1]))
            times.append(1e3 * ms / repeats)
        return times

    def free(self):
        for at in self.held:
            self.driver("cuMemFree_v2", ctypes.c_uint64(at))


def main():
    job, results = sys.argv[1:3]
    folder = os.path.dirname(job)
    with open(job) as f:
        programs = json.load(f)["programs"]
    answer = dict(programs=[])
    try:
        driver = Driver()
        answer["device"] = driver.describe()
        for p in programs:
            said = dict(name=p["name"])
            answer["programs"].append(said)
            copies = 1
            if "time" in p:
                copies = min(COPIES, p["time"], 1 + 2 * answer["device"]["l2"] // max(1, sum(t["bytes"] for t in p["tensors"].values())))
            program = Program(driver, folder, p, copies)
            if "outputs" in p:
                program.run(folder)
            if "time" in p:
                said["us"] = program.time(p["time"])
            program.free()
    except Failed as e:  # after a fault nothing of the driver's can be used
        (answer["programs"][-1] if answer["programs"] else answer)["error"] = str(e)
    with open(results, "w") as f:
        json.dump(answer, f)


if __name__ == "__main__":
    main()
