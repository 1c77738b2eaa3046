package sif

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
)

// payloadType and the types below are Apptainer's format of what a signature says.
const payloadType = "application/vnd.sylabs.sif-metadata+json"

type metadata struct {
	Version int            `json:"version"`
	Header  headerDigest   `json:"header"`
	Objects []objectDigest `json:"objects"`
}

type headerDigest struct {
	Digest string `json:"digest"`
}

type objectDigest struct {
	ID         uint32 `json:"relativeId"` // from the first object of the group on
	Descriptor string `json:"descriptorDigest"`
	Object     string `json:"objectDigest"`
}

// digests reads the whole file. progress gets the bytes that have been read since it was called last; it may be nil.
func (i *Image) digests(ctx context.Context, progress func(int64)) (metadata, error) {
	header, err := digest(ctx, i.file.GetHeaderIntegrityReader(), nil)
	if err != nil {
		return metadata{}, err
	}
	m := metadata{Version: 1, Header: headerDigest{header}}
	for n, span := range []Span{i.Partition, i.Manifest} {
		about, err := digest(ctx, i.parts[n].GetIntegrityReader(), nil)
		if err != nil {
			return metadata{}, err
		}
		object, err := digest(ctx, io.NewSectionReader(i.r, span.Offset, span.Size), progress)
		if err != nil {
			return metadata{}, fmt.Errorf("hash the SIF: %w", err)
		}
		m.Objects = append(m.Objects, objectDigest{uint32(n), about, object})
	}
	return m, nil
}

func digest(ctx context.Context, r io.Reader, progress func(int64)) (string, error) {
	h, buf := sha256.New(), make([]byte, 1<<20)
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		if progress != nil {
			progress(int64(n))
		}
		if err == io.EOF {
			return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// differs names the part of which the digests are not the signed ones; empty when they all are.
func (m metadata) differs(signed metadata) string {
	switch {
	case signed.Version != m.Version || len(signed.Objects) != len(m.Objects):
		return "set of objects"
	case signed.Header != m.Header:
		return "header"
	}
	for n, what := range []string{"partition", "manifest"} {
		if signed.Objects[n] != m.Objects[n] {
			return what
		}
	}
	return ""
}

func (m metadata) encode() ([]byte, error) { return json.Marshal(m) }
