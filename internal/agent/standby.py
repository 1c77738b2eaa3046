"""A Python that has imported what every ipykernel imports, waits, and becomes a kernel when it is told to.

It is run with -c by the agent, as the kernel's user and in the kernel's environment. On descriptor 3 it then gets one line of JSON: the
kernel's program, arguments (all, and those behind its module), directory and environment. If a module or a directory of modules has changed
since the imports, it begins anew as a plain start would have: what the kernel's user sees is the same in both cases.
"""


def standby():
    import json
    import os
    import sys

    here = sys.path[0] == ""
    if here:
        del sys.path[0]  # as ipykernel_launcher does: nothing is imported from the working directory

    began = dict(os.environ)
    # What is not in this version of ipykernel is imported when it is needed.
    wanted = (
        "ipykernel.kernelapp ipykernel.ipkernel ipykernel.zmqshell ipykernel.debugger ipykernel.subshell_manager ipykernel.comm "
        "IPython.core.completerlib IPython.core.magics IPython.core.pylabtools IPython.extensions.storemagic IPython.core.historyapp "
        "jupyter_client.provisioning zmq.asyncio zmq.eventloop.zmqstream tornado.platform.asyncio asyncio sqlite3 jedi parso comm psutil "
        "matplotlib_inline.config IPython.lib.pretty IPython.utils.capture stack_data pygments.formatters.terminal256 "
        "pygments.lexers.python pygments.styles.default"
    )
    for module in wanted.split():
        try:
            __import__(module)
        except Exception:
            pass

    def look():
        import site

        found = {}
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        for path in {*sys.path, site.getusersitepackages(), site.getuserbase(), *filter(None, files)}:
            try:
                at = os.stat(path)
                found[path] = (at.st_mtime_ns, at.st_ino, at.st_size)
            except OSError:
                found[path] = None
        return found

    before = look()
    with os.fdopen(3) as orders:
        line = orders.readline()
    if not line:
        os._exit(0)  # the agent has gone, or starts a kernel without this
    order = json.loads(line)
    os.chdir(order["dir"])
    if look() != before:
        os.execve(order["program"], order["argv"], order["env"])
    imported = {name: value for name, value in os.environ.items() if began.get(name) != value}  # modules set some
    os.environ.clear()
    os.environ.update({**imported, **order["env"]})
    sys.orig_argv[:] = order["argv"]
    sys.argv[:] = ["-m", *order["rest"]]
    if here:
        sys.path.insert(0, os.getcwd())


standby()
del standby
import runpy

runpy._run_module_as_main("ipykernel_launcher")
