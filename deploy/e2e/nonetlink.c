// For Chromium by LD_PRELOAD: a process that cannot have sockets of netlink. By these it hears of each interface that comes or goes on this
// host, as each container's does, and gives up all requests that wait for a connection then (net::ERR_NETWORK_CHANGED).
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  return syscall(SYS_socket, domain, type, protocol);
}
