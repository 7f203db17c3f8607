"""A stand-in for Ray with what rayslot.py asks of it: actors are objects of this process, and a streaming method is a generator."""
import os, types


class exceptions:
    class RayError(Exception):
        pass

    class ActorDiedError(RayError):
        pass


def init(address, **_):
    if address == "nowhere":
        raise ConnectionError("Could not find any running Ray instance")
    print("Ray prints on standard output")


class Method:
    def __init__(self, f):
        self.f = f

    def remote(self, *args):
        return self.f(*args)

    def options(self, **_):
        return self


class Actor:
    def __init__(self, instance):
        self.instance = instance

    def __getattr__(self, name):
        return Method(getattr(self.instance, name))


def remote(**_):
    return lambda made: types.SimpleNamespace(remote=lambda: Actor(made()))


def get(value):
    if os.environ.get("RAY_LOSES") and isinstance(value, bytes) and b'"reply"' in value:
        try:
            os.close(os.open(os.environ["RAY_LOSES"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return value
        raise exceptions.ActorDiedError("The actor died\nbecause its node did")
    return value


def kill(actor):
    actor.instance.child.kill()
