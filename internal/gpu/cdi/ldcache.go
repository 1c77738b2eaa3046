package cdi

import (
	"bytes"
	"encoding/binary"
)

// library is one line of the linker's cache.
type library struct {
	Name, Path string
	flags      uint32
}

// machine returns Go's name of the processors that a library is for; empty for those that no GPU of ours is beside.
func (l library) machine() string {
	const libc6 = 3
	switch l.flags {
	case 0x0300 | libc6:
		return "amd64"
	case 0x0a00 | libc6:
		return "arm64"
	default:
		return ""
	}
}

// The form of /etc/ld.so.cache since glibc 2.2: a header, entries of fixed size, strings. Before it there may be the
// older form, which is not needed. Offsets of strings count from the header.
const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// parseCache reads the linker's cache. What is damaged is left out.
func parseCache(data []byte) []library {
	i := bytes.Index(data, []byte(cacheMagic))
	if i < 0 || len(data)-i < cacheHeader {
		return nil
	}
	data = data[i:]
	count := binary.LittleEndian.Uint32(data[len(cacheMagic):])
	entries := data[cacheHeader:]
	if int64(count) > int64(len(entries)/cacheEntry) {
		return nil
	}
	var libraries []library
	for n := range int(count) {
		e := entries[n*cacheEntry:]
		l := library{
			flags: binary.LittleEndian.Uint32(e), Name: stringAt(data, binary.LittleEndian.Uint32(e[4:])),
			Path: stringAt(data, binary.LittleEndian.Uint32(e[8:])),
		}
		if l.Name != "" && l.Path != "" {
			libraries = append(libraries, l)
		}
	}
	return libraries
}

// stringAt reads a string that ends with a zero byte.
func stringAt(data []byte, offset uint32) string {
	if int64(offset) >= int64(len(data)) {
		return ""
	}
	text, _, found := bytes.Cut(data[offset:], []byte{0})
	if !found {
		return ""
	}
	return string(text)
}
