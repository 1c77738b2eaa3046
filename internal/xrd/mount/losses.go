package mount

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// xrootdfs gathers what is written, up to 64 KiB, and when a file is closed or synced it says that all is well also if that could not be
// sent: its storage has gone away meanwhile. XRootD's client tells of it in its log: it wants to open the file anew for what is still to
// be written, and cannot. Who opens a file there to change it, and cannot, is warned in vain.
var lastTry = regexp.MustCompile(`Impossible to send message kXR_open \(file: (/[^\n]*), mode: [0-9]+, flags: [a-zA-Z_ ]*kXR_open_updt`)

// mostLog bounds what is kept of a log, and what is read of it at once.
const mostLog = 1 << 20

// tellLosses tells a session's user of files that may not have come to the storage as she wrote them. The session's lock is held.
func (m *Mounter) tellLosses(id string, o *own) {
	for _, v := range m.views() {
		if v.readOnly() {
			continue
		}
		file := filepath.Join(m.cfg.RunDir, id, "log-"+v.name())
		from, known := o.read[v.name()]
		if !known && !m.openedHere(o) { // an earlier service has told that
			from = math.MaxInt64
		}
		text, to := readLog(file, from)
		o.read[v.name()] = to
		for _, at := range lostIn(text) {
			name := filepath.Join(v.path(), strings.TrimPrefix(at, v.Path))
			m.log.Warn("what was written may not have come to the storage", "id", id, "file", name)
			m.cfg.Tell(id, "What was last written to "+name+" may not be in the storage, which went away meanwhile: see its size, and write it again")
		}
	}
}

func (m *Mounter) openedHere(o *own) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return o.opened > 0
}

// readLog gives what is new in a log, and how far it is read. One that has become long begins anew.
func readLog(file string, from int64) (string, int64) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0
	}
	from = min(from, info.Size())
	text, _ := io.ReadAll(io.NewSectionReader(f, from, mostLog))
	if info.Size() > mostLog {
		_ = f.Truncate(0) // who writes it appends
		return string(text), 0
	}
	return string(text), from + int64(len(text))
}

// lostIn gives the files that a log says could not be opened anew, each once.
func lostIn(log string) []string {
	var out []string
	for _, found := range lastTry.FindAllStringSubmatch(log, -1) {
		if at := strings.Map(printable, strings.ToValidUTF8(found[1], "?")); !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// printable keeps from a terminal what a name could do to it.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}
