// Windows that slide over images, as convolutions and pools have them. The rows of a tensor are the positions of images, image
// after image, row by row; its columns are the channels.
#pragma once
#include "tensor.h"

// The arguments of Windows in the common arguments, in the order of its fields.
constexpr uint32_t kWindowArgs = 15;

struct Windows {
    uint32_t height, width, channels;      // of the images
    uint32_t out_height, out_width;        // positions of the window
    uint32_t kernel_height, kernel_width;  // of the window
    uint32_t stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
    uint32_t outside;  // bits of the element outside of the images
    uint32_t slots;    // pages of the images that have room in L1

    Tensor images;
    uint32_t memory, slot_bytes;  // of the slots in L1
    uint32_t* held;               // page in each slot
    uint32_t first_page, first_slot;

    // The positions of a tile: where the window's corner is in the image, and which row of the tensor that is.
    uint32_t count;
    int32_t y[32], x[32], row[32];

    // read reads the arguments from an index on, then the images after other arguments, and returns the index after them. Circular
    // buffers are used as memory: one for pages, one for a word for each of them.
    uint32_t read(uint32_t at, uint32_t at_images, uint32_t pages, uint32_t words) {
        height = rp_common_arg(at);
        width = rp_common_arg(at + 1);
        channels = rp_common_arg(at + 2);
        out_height = rp_common_arg(at + 3);
        out_width = rp_common_arg(at + 4);
        kernel_height = rp_common_arg(at + 5);
        kernel_width = rp_common_arg(at + 6);
        stride_y = rp_common_arg(at + 7);
        stride_x = rp_common_arg(at + 8);
        padding_y = rp_common_arg(at + 9);
        padding_x = rp_common_arg(at + 10);
        dilation_y = rp_common_arg(at + 11);
        dilation_x = rp_common_arg(at + 12);
        outside = rp_common_arg(at + 13);
        slots = rp_common_arg(at + 14);
        memory = get_write_ptr(pages);
        held = reinterpret_cast<uint32_t*>(get_write_ptr(words));
        at_images = images.read(at_images, 0);
        slot_bytes = (images.bytes + 63) & ~63u;
        for (uint32_t i = 0; i < slots; i++) {
            held[i] = 0xFFFFFFFF;
        }
        return at_images;
    }

    // row_page returns the page with the first element of a row.
    uint32_t row_page(uint32_t row) const { return (images.flags & kFlagTile ? row / 32 : row) * images.wide; }

    // clamped returns a row of an image that is in it.
    uint32_t clamped(int32_t row) const { return row < 0 ? 0 : row >= static_cast<int32_t>(height) ? height - 1 : row; }

    // place moves the window to up to 32 positions from one on, and brings the pages under it to the slots. A page stays in its slot
    // while the window is above it: there are as many slots as pages under any tile of positions.
    void place(uint32_t position, uint32_t positions) {
        count = positions - position < 32 ? positions - position : 32;
        const uint32_t each = out_height * out_width;
        uint32_t image = position / each, oy = position % each / out_width, ox = position % out_width;
        for (uint32_t i = 0; i < count; i++) {
            y[i] = static_cast<int32_t>(oy * stride_y) - static_cast<int32_t>(padding_y);
            x[i] = static_cast<int32_t>(ox * stride_x) - static_cast<int32_t>(padding_x);
            row[i] = static_cast<int32_t>(image * height * width) + y[i] * static_cast<int32_t>(width) + x[i];
            if (++ox == out_width) {
                ox = 0;
                if (++oy == out_height) {
                    oy = 0;
                    image++;
                }
            }
        }
        const uint32_t top = clamped(y[0]), bottom = clamped(y[count - 1] + static_cast<int32_t>((kernel_height - 1) * dilation_y));
        const uint32_t end = row_page(((position + count - 1) / each * height + bottom + 1) * width - 1) + images.wide;
        first_page = row_page((position / each * height + top) * width);
        first_slot = first_page % slots;
        bool reading = false;
        for (uint32_t page = first_page, slot = first_slot; page != end; page++) {
            if (held[slot] != page) {
                held[slot] = page;
                images.copy(page, memory + slot * slot_bytes);
                reading = true;
            }
            if (++slot == slots) {
                slot = 0;
            }
        }
        if (reading) {
            noc_async_read_barrier();
        }
    }

    // find returns an element of a row, given the page of a row that its channel is in, and where it is there.
    template <class T>
    const T* find(uint32_t row, uint32_t page, uint32_t off) const {
        if (images.flags & kFlagTile) {
            off += (row / 16 % 2 << 9) + row % 16 * 16;
            row /= 32;
        }
        uint32_t slot = first_slot + row * images.wide + page - first_page;
        if (slot >= slots) {
            slot -= slots;
        }
        return reinterpret_cast<const T*>(memory + slot * slot_bytes) + off;
    }

    // fill stores the element outside in a tile.
    template <class T>
    void fill(uint32_t tile) const {
        const uint32_t word = sizeof(T) == 2 ? outside << 16 | outside : outside;
        volatile uint32_t* to = reinterpret_cast<volatile uint32_t*>(tile);
        for (uint32_t i = 0; i < 256 * sizeof(T); i += 8) {
            for (uint32_t k = 0; k < 8; k++) {
                to[i + k] = word;
            }
        }
    }

    // gather fills a tile with the elements under the window: a row for each position, and columns for channels from one on at an
    // element of the window, then for the channels at the elements after it. What is left is the element outside.
    template <class T>
    void gather(uint32_t tile, uint32_t element, uint32_t channel, uint32_t columns) const {
        if (count < 32 || columns < 32) {
            fill<T>(tile);
        }
        const bool tiles = images.flags & kFlagTile;
        const uint32_t inner = tiles ? 16 : images.page_width;
        for (uint32_t column = 0; column < columns;) {
            uint32_t run = channels - channel;  // columns that follow one another in the images and in the tile
            const uint32_t in_page = inner - channel % inner, in_face = 16 - column % 16, left = columns - column;
            run = run < in_page ? run : in_page;
            run = run < in_face ? run : in_face;
            run = run < left ? run : left;
            const uint32_t page = tiles ? channel / 32 : channel / inner;
            const uint32_t off = tiles ? (channel / 16 % 2 << 8) + channel % 16 : channel % inner;
            const int32_t dy = element / kernel_width * dilation_y, dx = element % kernel_width * dilation_x;
            const int32_t rows = dy * static_cast<int32_t>(width) + dx;
            T* to = reinterpret_cast<T*>(tile) + (column / 16 << 8) + column % 16;
            const bool words = sizeof(T) == 2 && ((run | off | column) & 1) == 0;
            for (uint32_t i = 0; i < count; i++, to += i == 16 ? 256 + 16 : 16) {
                if (static_cast<uint32_t>(y[i] + dy) >= height || static_cast<uint32_t>(x[i] + dx) >= width) {
                    for (uint32_t k = 0; k < run; k++) {
                        to[k] = outside;
                    }
                    continue;
                }
                const T* from = find<T>(row[i] + rows, page, off);
                if (words) {
                    for (uint32_t k = 0; k < run / 2; k++) {
                        reinterpret_cast<uint32_t*>(to)[k] = reinterpret_cast<const uint32_t*>(from)[k];
                    }
                    continue;
                }
                for (uint32_t k = 0; k < run; k++) {
                    to[k] = from[k];
                }
            }
            column += run;
            channel += run;
            if (channel == channels) {
                channel = 0;
                element++;
            }
        }
    }

    // push gathers a tile to a circular buffer.
    void push(uint32_t cb, uint32_t element, uint32_t channel, uint32_t columns) const {
        cb_reserve_back(cb, 1);
        if (size_of(images.type) == 2) {
            gather<uint16_t>(get_write_ptr(cb), element, channel, columns);
        } else {
            gather<uint32_t>(get_write_ptr(cb), element, channel, columns);
        }
        rp_publish();
        cb_push_back(cb, 1);
    }
};
