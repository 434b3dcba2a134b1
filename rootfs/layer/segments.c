/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/layer/segments.h"

#include <unistd.h>

size_t segments_find(int fd, uint64_t size, struct segment *segs)
{
	uint64_t at = 0;
	size_t n = 0;

	while (at < size) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0)
			break;	/* ENXIO: a hole up to the end */
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data || n == SEGMENTS_MAX)
			return 0;
		if ((uint64_t)data >= size)
			break;
		segs[n].off = (uint64_t)data;
		segs[n].len = ((uint64_t)hole > size ? size : (uint64_t)hole) - (uint64_t)data;
		at = (uint64_t)hole;
		n++;
	}
	if (n && !segs[0].off && segs[0].len == size)
		return 0;
	/* the map ends with the file's size */
	segs[n].off = size;
	segs[n].len = 0;
	return n + 1;
}
