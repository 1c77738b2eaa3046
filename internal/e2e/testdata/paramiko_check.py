"""What another ssh client, Paramiko, finds behind the gateway. Says `fine` when all of it is as it should be."""

import hashlib
import os
import socket
import sys
import time

import paramiko

host, port, user, key, known = sys.argv[1:]
client = paramiko.SSHClient()
client.load_host_keys(known)
client.set_missing_host_key_policy(paramiko.RejectPolicy())
patience = {"timeout": 45, "banner_timeout": 45, "auth_timeout": 45}
client.connect(host, int(port), username=user, key_filename=key, allow_agent=False, look_for_keys=False, **patience)

stdin, stdout, stderr = client.exec_command("cat; echo err >&2; exit 5")
stdin.write(bytes(range(256)))
stdin.channel.shutdown_write()
assert stdout.read() == bytes(range(256)), "stdout"
assert stderr.read() == b"err\n", "stderr"
assert stdout.channel.recv_exit_status() == 5, "exit status"

with client.open_sftp() as sftp:
    blob = os.urandom(3_000_000)
    with sftp.open("/tmp/paramiko", "wb") as file:
        file.set_pipelined(True)
        file.write(blob)
    sftp.chmod("/tmp/paramiko", 0o600)
    sftp.utime("/tmp/paramiko", (10**9, 10**9))
    facts = sftp.stat("/tmp/paramiko")
    assert (facts.st_size, facts.st_mtime, facts.st_mode & 0o777) == (len(blob), 10**9, 0o600), facts
    with sftp.open("/tmp/paramiko", "rb") as file:
        file.prefetch()
        assert hashlib.sha256(file.read()).digest() == hashlib.sha256(blob).digest(), "contents"
    sftp.posix_rename("/tmp/paramiko", "/tmp/paramiko2")
    assert "paramiko2" in sftp.listdir("/tmp"), "listing"
    sftp.remove("/tmp/paramiko2")
    try:
        sftp.stat("/tmp/paramiko2")
        raise AssertionError("a removed file is there")
    except FileNotFoundError:
        pass

shell = client.invoke_shell(term="vt100", width=101, height=41)
shell.send(b"PS1=; stty size; exit 7\n")
text = b""
while part := shell.recv(4096):
    text += part
assert b"41 101" in text, text
assert shell.recv_exit_status() == 7, "exit status of the shell"

transport = client.get_transport()
assert transport is not None
inside = transport.request_port_forward("127.0.0.1", 0)
client.exec_command(f"python3 /tmp/peer.py ask 127.0.0.1:{inside} hello")
came = transport.accept(45)
assert came is not None and came.recv(5) == b"hello", "forwarded back"
came.close()
transport.cancel_port_forward("127.0.0.1", inside)
try:
    transport.open_channel("direct-tcpip", ("127.0.0.1", 1), ("127.0.0.1", 0), timeout=45)
    raise AssertionError("a channel to where nobody listens is open")
except paramiko.ChannelException:
    pass
transport.renegotiate_keys()
assert client.exec_command("echo after")[1].read() == b"after\n", "after the keys were changed"
client.close()

try:
    client.connect(host, int(port), username=user, pkey=paramiko.ECDSAKey.generate(), allow_agent=False, look_for_keys=False, **patience)
    raise AssertionError("a key that nobody has registered is good for a login")
except (paramiko.AuthenticationException, paramiko.SSHException, socket.error):
    time.sleep(0)
print("fine")
