"""Runs one gdngen worker on a node of a Ray cluster and passes its lines on: standard input to the worker, its replies to standard output.

The worker is the child of an actor, for which Ray finds a node with room. Whatever is lost, the actor, its node or the head, ends this
process, and the search starts another: no order is kept here.
usage: rayslot.py ADDRESS CPUS RESOURCES-AS-JSON BUILD PROGRAM FLAGS..."""
import ctypes, json, os, signal, subprocess, sys, tempfile, threading, time

try:
    import ray
except ImportError:
    sys.exit(f"{sys.executable} has no ray: pip install 'ray[default]', or name a Python that has it in GDNGEN_RAY_PYTHON")

READY_WITHIN = 300  # seconds in which the cluster must find room and the worker must start


class Slot:
    def has(self, build):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.program = os.path.join(cache, "gdngen", "bin", build, "gdngen")
        return os.access(self.program, os.X_OK)

    def install(self, content):
        os.makedirs(os.path.dirname(self.program), exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(self.program), delete=False) as f:
            f.write(content)
        os.chmod(f.name, 0o755)
        os.rename(f.name, self.program)

    def start(self, flags):
        def end_with_actor():
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

        def end_with_node(raylet):  # an actor may outlive the raylet that was killed beside it
            while os.getppid() == raylet:
                time.sleep(1)
            os._exit(1)

        threading.Thread(target=end_with_node, args=(os.getppid(),), daemon=True).start()
        self.noise = tempfile.TemporaryFile()
        self.child = subprocess.Popen([self.program, "worker", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.noise, preexec_fn=end_with_actor)
        return True

    def lines(self):
        for line in self.child.stdout:
            yield line
        status = self.child.wait()
        self.noise.seek(0)
        yield status, self.noise.read()[-4096:]

    def write(self, line):
        self.child.stdin.write(line)
        self.child.stdin.flush()


def main():
    address, cpus, resources, build, program, *flags = sys.argv[1:]
    out = os.fdopen(os.dup(1), "wb", 0)  # Ray prints on standard output when a node dies: it gets standard error
    os.dup2(2, 1)
    ready = threading.Event()

    def beat():
        end = time.time() + READY_WITHIN
        while not ready.wait(5) and time.time() < end:
            out.write(b'{"beat":{}}\n')

    threading.Thread(target=beat, daemon=True).start()
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", namespace="gdngen")
    options = {"num_cpus": float(cpus), "resources": json.loads(resources), "max_restarts": 0, "max_concurrency": 4}
    slot = ray.remote(**options)(Slot).remote()
    if not ray.get(slot.has.remote(build)):
        with open(program, "rb") as f:
            ray.get(slot.install.remote(f.read()))
    ray.get(slot.start.remote(flags))

    def feed():
        try:
            for line in sys.stdin.buffer:
                ray.get(slot.write.remote(line))
        except ray.exceptions.RayError:
            return  # the replies end too, and say why
        ray.kill(slot)  # the search is over
        os._exit(0)

    threading.Thread(target=feed, daemon=True).start()
    for reference in slot.lines.options(num_returns="streaming").remote():
        got = ray.get(reference)
        ready.set()
        if isinstance(got, bytes):
            out.write(got)
        else:
            status, said = got
            sys.stderr.write(said.decode(errors="replace"))
            sys.stderr.flush()
            os._exit(status if status > 0 else 1)


try:
    main()
except (ConnectionError, ray.exceptions.RayError) as e:
    print(f"{type(e).__name__}: {' '.join(str(e).split())[:300]}", file=sys.stderr)
    os._exit(1)
