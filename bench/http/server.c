/* A small HTTP server for bench/http/run.py: answers every request with the same few bytes, as cheaply as epoll allows.
 *
 *     cc -O2 -pthread -o server server.c && ./server THREADS
 *
 * Prints its port. Each thread has a socket of its own on it (SO_REUSEPORT). Requests have no body. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";

static int listen_on(in_port_t *port) {
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = *port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 4096)) {
        perror("server");
        exit(2);
    }
    getsockname(fd, (struct sockaddr *)&address, &length);
    *port = address.sin_port;
    return fd;
}

/* Answers as many requests as the bytes contain; those of one that is not whole wait in the kernel's buffer no longer than
 * until the rest of them comes, since a request of these tools is one segment. */
static int serve(int fd) {
    char buffer[16384];
    ssize_t count = recv(fd, buffer, sizeof buffer - 1, 0);
    if (count <= 0) {
        return count < 0 && errno == EAGAIN ? 0 : -1;
    }
    buffer[count] = 0;
    for (char *at = buffer; (at = strstr(at, "\r\n\r\n")); at += 4) {
        if (send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0) {
            return -1;
        }
    }
    return 0;
}

static void *loop(void *listener) {
    int on = 1, listening = (int)(long)listener, epoll = epoll_create1(0);
    struct epoll_event events[256], event = {.events = EPOLLIN, .data = {.fd = listening}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event);
    for (;;) {
        int count = epoll_wait(epoll, events, 256, -1);
        for (int at = 0; at < count; at++) {
            int fd = events[at].data.fd;
            if (fd != listening) {
                if (serve(fd)) {
                    close(fd);
                }
                continue;
            }
            while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event.data.fd = fd;
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
            }
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    in_port_t port = 0;
    for (int at = 0; at < threads; at++) {
        pthread_t thread;
        pthread_create(&thread, NULL, loop, (void *)(long)listen_on(&port));
    }
    printf("%d\n", ntohs(port));
    fflush(stdout);
    pause();
    return 0;
}
