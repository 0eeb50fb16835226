// packets.c: what Linux's Bluetooth receives from the laboratory's card (bt-type-a), seen at its monitor, where each packet is shown that a driver hands over.
// packets COUNT SECONDS: waits for COUNT packets of data, SECONDS at most. Each must be the card's next one, byte for byte. Says `packets: listening` first.
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Of the kernel's interface.
enum { PROTOCOL_HCI = 1, CHANNEL_MONITOR = 2, NO_DEVICE = 0xffff, COMMAND = 2, DATA_RECEIVED = 5, HEADER = 6, PAYLOAD = 2048 };
struct address {
  unsigned short family, device, channel;
};

// As the card makes them: the number in four bytes, then bytes that depend on number and place.
static int is_right(const uint8_t *bytes, uint64_t number) {
  for (uint64_t at = 0; at < PAYLOAD; at++) {
    uint8_t made = at < 4 ? number >> 8 * at : (number << 20 | at) * UINT64_C(0x9e3779b97f4a7c15) >> 56;
    if (bytes[at] != made) return 0;
  }
  return 1;
}

static uint64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * UINT64_C(1000000) + now.tv_nsec / 1000;
}

int main(int count, char **arguments) {
  uint64_t wanted = count == 3 ? strtoull(arguments[1], NULL, 10) : 0, limit_us = count == 3 ? strtoull(arguments[2], NULL, 10) * 1000000 : 0;
  if (!wanted || !limit_us) {
    fprintf(stderr, "usage: packets COUNT SECONDS\n");
    return 2;
  }
  struct address monitor = { AF_BLUETOOTH, NO_DEVICE, CHANNEL_MONITOR };
  int from = socket(AF_BLUETOOTH, SOCK_RAW | SOCK_CLOEXEC, PROTOCOL_HCI), room = 8 << 20;
  if (from < 0 || setsockopt(from, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) || bind(from, (struct sockaddr *)&monitor, sizeof monitor)) {
    perror("packets");
    return 1;
  }
  printf("packets: listening\n");
  fflush(stdout);
  uint64_t begin_us = now_us(), first_us = 0, last_us = 0, seen = 0, wrong = 0, other = 0, commands = 0, next = 0;
  while (seen < wanted && now_us() - begin_us < limit_us) {
    static uint8_t frame[65536];
    struct pollfd ready = { from, POLLIN, 0 };
    if (poll(&ready, 1, 100) <= 0) continue;
    ssize_t bytes = read(from, frame, sizeof frame);
    if (bytes < HEADER) continue;
    int what = frame[0] | frame[1] << 8;
    commands += what == COMMAND;
    if (what != DATA_RECEIVED) {
      other += what != COMMAND;
      continue;
    }
    last_us = now_us();
    if (!seen++) first_us = last_us;
    int good = bytes == HEADER + PAYLOAD && is_right(frame + HEADER, next);
    if (!good && !wrong++) printf("packets: the first that is wrong has %zd bytes, expected number %lu\n", bytes - HEADER, (unsigned long)next);
    next++;
  }
  printf("packets: %lu received in %lu us, %lu wrong, %lu commands, %lu others\n", (unsigned long)seen, (unsigned long)(last_us - first_us),
         (unsigned long)wrong, (unsigned long)commands, (unsigned long)other);
  return seen < wanted || wrong;
}
