package sif

import (
	"fmt"
	"io"
	"os"
)

// Finish makes a SIF of a file that holds a squashfs of partition bytes at PartitionOffset: it writes the manifest and
// the head and cuts off whatever lies behind. It can be repeated; the file is the same each time. Flushing is the
// caller's.
func Finish(f *os.File, arch string, partition int64, manifest []byte) error {
	head, err := Head(arch, partition, int64(len(manifest)))
	if err != nil {
		return fmt.Errorf("compose the SIF: %w", err)
	}
	if err := holds(f, manifestOffset(partition)); err != nil {
		return err
	}
	if _, err := f.WriteAt(manifest, manifestOffset(partition)); err != nil {
		return fmt.Errorf("write the manifest: %w", noSpace(err))
	}
	return unsigned(f, head, manifestOffset(partition)+int64(len(manifest)))
}

// Repair brings a file back to the bytes that it had before it was signed, also when a signing was interrupted at any
// point. It trusts nothing but the sizes of partition and manifest, which no signing changes: what the file says about
// itself is to be checked again afterwards by who knows its digest.
func Repair(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := readHead(f)
	if err != nil {
		return err
	}
	clear(b[descriptorsAt+2*descriptorSize:]) // what a half signed head says of signatures has no meaning
	d, err := describe(b, info.Size())
	if err != nil {
		return fmt.Errorf("repair the SIF: %w", err)
	}
	head, err := Head(d.Arch, d.Partition.Size, d.Manifest.Size)
	if err != nil {
		return fmt.Errorf("repair the SIF: %w", err)
	}
	return unsigned(f, head, d.Manifest.end())
}

func unsigned(f *os.File, head []byte, size int64) error {
	if _, err := f.WriteAt(head, 0); err != nil {
		return fmt.Errorf("write the SIF's head: %w", noSpace(err))
	}
	info, err := f.Stat()
	if err != nil || info.Size() == size { // XFS would write out the whole file before it looks at its size
		return err
	}
	return f.Truncate(size)
}

// holds makes sure that f has that many bytes.
func holds(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < size {
		return fmt.Errorf(
			"the file ends at %d, inside the partition that ends at %d: %w", info.Size(), size, io.ErrUnexpectedEOF,
		)
	}
	return nil
}
