"""What programs in a session do with a kernel that runs on a slice: they know Jupyter alone."""

import json
import os
import re
import signal
import subprocess
import sys
import time

from jupyter_client import BlockingKernelClient, KernelManager
from jupyter_client.kernelspec import KernelSpecManager

NAME = "slipway-python"
PATIENCE = 60


def begin(**more):
    manager = KernelManager(kernel_name=NAME, **more)
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE)
    return manager, client


def wait(client):
    """Waits for a kernel by its heartbeats; wait_for_ready calls it dead when one of them takes a second."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return client.wait_for_ready(timeout=PATIENCE)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise


def run(client, code, answer=None):
    """Runs a cell, and gives what it printed, its last value, and its error."""
    out = {"stream": "", "value": None, "error": None, "messages": []}

    def note(message):
        content = message["content"]
        out["messages"].append(message["msg_type"])
        if message["msg_type"] == "stream":
            out["stream"] += content["text"]
        elif message["msg_type"] == "clear_output":  # what was said of its start is taken away
            out["stream"] = ""
        elif message["msg_type"] == "execute_result":
            out["value"] = content["data"]["text/plain"]
        elif message["msg_type"] == "error":
            out["error"] = content["ename"] + ": " + content["evalue"]

    client.execute_interactive(
        code, output_hook=note, timeout=PATIENCE, stdin_hook=lambda message: client.input(answer), allow_stdin=answer is not None)
    return out


def check(name, got, want):
    if got != want:
        sys.exit(f"{name}: {got!r} instead of {want!r}")


def specs():
    for _ in range(PATIENCE * 10):
        found = KernelSpecManager().get_all_specs()
        if NAME in found:
            spec = found[NAME]["spec"]
            check("display name", spec["display_name"], "Python here, own container")
            check("local kernels", "python3" in found, True)
            return
        time.sleep(0.1)
    sys.exit("the kernelspec does not come: " + json.dumps(sorted(found)))


def conversation():
    os.makedirs("below", exist_ok=True)
    os.chdir("below")
    manager, client = begin()
    check("directory", run(client, "import os; os.path.relpath(os.getcwd(), os.path.expanduser('~'))")["value"], "'below'")
    where = run(client, "import socket; socket.gethostname()")["value"]
    check("elsewhere", where != repr(os.uname().nodename), True)
    check("input", run(client, "print('hello', input('who? '))", "alice")["stream"], "hello alice\n")
    check("large", len(run(client, "print('x' * 50_000_000)")["stream"]), 50_000_001)
    check("many", run(client, "for i in range(10_000): print(i, flush=True)")["stream"], "".join(f"{i}\n" for i in range(10_000)))

    # Two clients: each gets its own answers, and both what is printed.
    other = BlockingKernelClient(connection_file=manager.connection_file)
    other.load_connection_file()
    other.start_channels()
    wait(other)
    check("the other", run(other, "6 * 7")["value"], "42")
    client.execute("x = 'seen'; print(x)")
    while other.get_iopub_msg(timeout=PATIENCE)["content"].get("text") != "seen\n":
        pass
    check("answer", client.get_shell_msg(timeout=PATIENCE)["content"]["status"], "ok")
    other.stop_channels()

    # What JupyterLab asks for beside cells: the debugger, and a subshell while a cell runs.
    def ask(kind, content):
        message = client.session.msg(kind, content)
        client.session.send(client.control_channel.socket, message)
        while True:
            answer = client.get_control_msg(timeout=PATIENCE)
            if answer["parent_header"]["msg_id"] == message["header"]["msg_id"]:
                return answer["content"]

    check("debugger", ask("debug_request", {"seq": 1, "type": "request", "command": "initialize", "arguments": {"clientID": "t", "adapterID": ""}})["success"], True)
    check("debugger's end", ask("debug_request", {"seq": 2, "type": "request", "command": "disconnect", "arguments": {"restart": False, "terminateDebuggee": False}})["success"], True)
    subshell = ask("create_subshell_request", {})["subshell_id"]
    client.execute(f"import threading; go = threading.Event()\nif not go.wait({PATIENCE}): raise TimeoutError")
    message = client.session.msg("execute_request", {"code": "import time\nwhile 'go' not in globals(): time.sleep(0.01)\ngo.set()", "silent": True, "store_history": False, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True})
    message["header"]["subshell_id"] = subshell
    client.session.send(client.shell_channel.socket, message)
    check("a cell that a subshell frees", [client.get_shell_msg(timeout=2 * PATIENCE)["content"]["status"] for _ in range(2)], ["ok", "ok"])
    ask("delete_subshell_request", {"subshell_id": subshell})

    with open("script.py", "w") as f:
        f.write("print(x)")
    check("jupyter run --existing", program("jupyter_client.runapp", f"--existing={manager.connection_file}", "script.py"), "seen\n")

    # A giant is refused with the limit, and what follows is not.
    client.session.send(client.shell_channel.socket, client.session.msg("execute_request", {"code": "x", "silent": False}), buffers=[bytes(65 << 20)])
    check("giant", client.get_shell_msg(timeout=PATIENCE)["content"]["ename"], "TooLarge")

    # Widgets' messages carry bytes.
    run(client, "from comm import get_comm_manager\ndef echo(comm, _):\n    comm.on_msg(lambda m: comm.send({'got': len(m['buffers'][0])}, buffers=[bytes(m['buffers'][0])]))\nget_comm_manager().register_target('echo', echo)")
    for kind, content in (("comm_open", {"comm_id": "c", "target_name": "echo", "data": {}}), ("comm_msg", {"comm_id": "c", "data": {}})):
        message = client.session.msg(kind, content)
        client.session.send(client.shell_channel.socket, message, buffers=[b"\0\xff" * 1000])
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["msg_type"] == "comm_msg":
            check("buffer", bytes(message["buffers"][0]), b"\0\xff" * 1000)
            break

    client.execute("import time\nprint('busy', flush=True)\nwhile True: time.sleep(0.05)")
    while client.get_iopub_msg(timeout=PATIENCE)["content"].get("text") != "busy\n":
        pass
    manager.interrupt_kernel()
    check("interrupt", client.get_shell_msg(timeout=PATIENCE)["content"]["ename"], "KeyboardInterrupt")

    # A process that is killed leaves all as it was; a restart keeps the slice and nothing else.
    os.kill(manager.provisioner.pid, signal.SIGKILL)
    manager.provisioner.process.wait()
    client.stop_channels()
    manager.restart_kernel(now=True)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE)
    check("after a kill", run(client, "x, socket.gethostname()")["value"], f"('seen', {where})")
    manager.restart_kernel()
    client.wait_for_ready(timeout=PATIENCE)
    check("after a restart", run(client, "x")["error"], "NameError: name 'x' is not defined")
    check("its slice", run(client, "import socket; socket.gethostname()")["value"], where)
    took = []
    for _ in range(100):
        began = time.perf_counter()
        client.execute("1", silent=True)
        client.get_shell_msg(timeout=PATIENCE)
        took.append(time.perf_counter() - began)
    print(f"median round trip {sorted(took)[50] * 1000:.2f} ms", flush=True)
    rss = re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{manager.provisioner.pid}/status").read()).group(1)
    print(f"memory of the bridge {int(rss) // 1024} MB")
    client.stop_channels()
    manager.shutdown_kernel()


def program(*command):
    """Gives what a program of Jupyter's prints."""
    done = subprocess.run([sys.executable, "-m", *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * PATIENCE)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def programs():
    """Programs that have a kernel of their own."""
    import nbformat

    with open("script.py", "w") as f:
        f.write("import os; print('ran', os.uname().nodename)")
    said = program("jupyter_client.runapp", f"--kernel={NAME}", "script.py").split()
    check("jupyter run", (said[0], said[1] != os.uname().nodename), ("ran", True))
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import sys\nprint('run', flush=True)"), nbformat.v4.new_code_cell("6 * 7")]), "book.ipynb")
    program("jupyter", "execute", "--inplace", f"--kernel_name={NAME}", "book.ipynb")
    check("jupyter execute", nbformat.read("book.ipynb", 4).cells[1].outputs[0]["data"]["text/plain"], "42")


def over_a_restart():
    """Prints on while the service is away."""
    manager, client = begin()
    count = run(client, "import os, time\nfor i in range(3000):\n    print(i, flush=True)\n    if i == 1000:\n        open('half', 'w').close()\n        while not os.path.exists('on'): time.sleep(0.05)")["stream"]
    check("lines", count, "".join(f"{i}\n" for i in range(3000)))
    check("afterwards", run(client, "i")["value"], "2999")
    open("done", "w").close()
    while True:
        time.sleep(1)


def server():
    """A Jupyter Server of the session's, as a browser uses it."""
    import asyncio
    import urllib.request

    from tornado.websocket import websocket_connect

    log = open("server.log", "w")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_server", "--no-browser", "--port=18888", "--port-retries=0", "--IdentityProvider.token=t"], stdout=log, stderr=log)

    def call(method, path, body=None):
        request = urllib.request.Request(
            "http://127.0.0.1:18888" + path, method=method, data=json.dumps(body).encode() if body else None, headers={"Authorization": "token t"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    for _ in range(PATIENCE * 5):
        try:
            call("GET", "/api")
            break
        except OSError:
            time.sleep(0.2)
    names = call("GET", "/api/kernelspecs")["kernelspecs"]
    check("launcher", sorted(names), ["python3", NAME])
    session = call("POST", "/api/sessions", {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": NAME}})
    kernel = session["kernel"]["id"]

    async def talk():
        socket = await websocket_connect(f"ws://127.0.0.1:18888/api/kernels/{kernel}/channels?session_id=b&token=t")
        number = 0

        async def cell(code):
            nonlocal number
            number += 1
            identity = f"m{number}"
            header = {"msg_id": identity, "msg_type": "execute_request", "session": "b", "username": "", "version": "5.3", "date": "2026-01-01T00:00:00Z"}
            content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
            await socket.write_message(json.dumps(
                {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": []}))
            while True:
                text = await asyncio.wait_for(socket.read_message(), PATIENCE)
                if text is None:
                    sys.exit("the server closes the websocket")
                message = json.loads(text)
                if message["msg_type"] in ("execute_result", "error") and message["parent_header"]["msg_id"] == identity:
                    return message["content"]

        check("in the browser", (await cell("x = 6 * 7; x"))["data"]["text/plain"], "42")
        call("POST", f"/api/kernels/{kernel}/restart", {})
        check("after a restart there", (await cell("x"))["ename"], "NameError")

    try:
        asyncio.run(talk())
        call("DELETE", "/api/sessions/" + session["id"])
    finally:
        process.terminate()
        process.wait()


globals()[sys.argv[1]]()
