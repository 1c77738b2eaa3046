package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// JSON prints v as programs read it.
func JSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(asciiControls(b.Bytes()))
	return err
}

// Table prints rows below a head; with none, what to do to get some.
func Table(w io.Writer, head []string, rows [][]string, whenEmpty string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, whenEmpty)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			row[i] = Printable(cell)
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t "))
	}
	return t.Flush()
}

// Pairs prints names and values below each other; pairs without a value are left out.
func Pairs(w io.Writer, pairs [][2]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", p[0], Printable(p[1]))
		}
	}
	return t.Flush()
}

// Ago says how long ago t was, as people say it.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	switch d := now.Sub(t); {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd ago", int(d.Hours()/24))
	}
}

// ShortDigest returns enough of a digest to name it.
func ShortDigest(d string) string {
	hex := strings.TrimPrefix(d, "sha256:")
	return hex[:min(12, len(hex))]
}
