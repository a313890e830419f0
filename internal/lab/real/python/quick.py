"""Has Octavia loaded in half of the time."""
import contextlib
import inspect


@contextlib.contextmanager
def types():
    """Lets Octavia's types be made without their sources.

    WSME reads the source of each class to have its attributes in the order
    in which they stand there; without it they are in the order of their names.
    """
    def unread(*_):
        raise OSError('not needed')
    read, inspect.getsourcelines = inspect.getsourcelines, unread
    try:
        yield
    finally:
        inspect.getsourcelines = read


def application():
    with types():
        from octavia.api import app
    return app.setup_app()
