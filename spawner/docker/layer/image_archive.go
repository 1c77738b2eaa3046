package layer

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// WriteImage writes an archive as engines load them, of an image that lacks all layers but the last: the engine has
// them.
func WriteImage(w io.Writer, config []byte, lacking int, size int64, layer func(io.Writer) error) error {
	t := tar.NewWriter(w)
	var names []string
	for i := range lacking {
		names = append(names, fmt.Sprintf("base/%d.tar", i))
	}
	manifest, err := json.Marshal(
		[]map[string]any{{"Config": "config.json", "RepoTags": nil, "Layers": append(names, "layer.tar")}},
	)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"config.json": config, "manifest.json": manifest} {
		err = errors.Join(
			err, t.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}),
		)
		if err == nil {
			_, err = t.Write(text)
		}
	}
	if err == nil {
		err = t.WriteHeader(
			&tar.Header{Name: "layer.tar", Typeflag: tar.TypeReg, Mode: 0o644, Size: size, Format: tar.FormatPAX},
		)
	}
	if err == nil {
		err = layer(t)
	}
	return errors.Join(err, t.Close())
}

// mostAnswer bounds what is read of an engine's answer to a load.
const mostAnswer = 1 << 20

// ReadLoad reads what an engine says of a load. A failure comes with a good status.
func ReadLoad(r io.Reader) error {
	for d := json.NewDecoder(io.LimitReader(r, mostAnswer)); ; {
		var m struct {
			Error string `json:"error"`
		}
		err := d.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
	}
}
