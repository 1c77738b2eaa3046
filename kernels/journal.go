package kernels

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway/kernels/wire"
)

const (
	// journalTime is for how long untaken messages are kept for a client that stays away. A kernel's agent remembers
	// for as long which messages it has taken: it takes none of them twice.
	journalTime = 24 * time.Hour
	journalMore = 1 << 20 // bytes of taken messages that a file may have beside as many as wait in it

	restAfter = time.Second // without a message: the file is removed at the next look at the client

	recordMessage = 'm' // with a message's length, and the message in the framing V1
	recordTaken   = 't' // with the number of messages, from the oldest on, that were taken
	recordHead    = 5
	joined        = 32 << 10 // bytes: what is shorter is written together with its head
)

// Journal keeps in files what clients have sent and their kernels have not taken, so that a service that is killed
// sends it after its restart. Nothing is synced to disk: what a process has written outlives its death, and only that
// of the host loses it.
type Journal struct {
	dir   string
	log   *slog.Logger
	began time.Time
	files atomic.Uint64 // that were made
	fails atomic.Bool   // it was said that it cannot be written

	mu   sync.Mutex
	left map[string][]string // the files of processes before, oldest first, by client
}

// NewJournal opens the journal in a directory of its own, which is made if there is none.
func NewJournal(dir string, log *slog.Logger) (*Journal, error) {
	j := &Journal{dir: dir, log: log, began: time.Now(), left: map[string][]string{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for what kernels' clients have sent: %w", err)
	}
	all, err := os.ReadDir(dir) // by name: of one client the oldest first
	if err != nil {
		return nil, fmt.Errorf("look at what kernels' clients have sent: %w", err)
	}
	for _, e := range all {
		path := filepath.Join(dir, e.Name())
		if i, err := e.Info(); err != nil || i.Size() == 0 || time.Since(i.ModTime()) > journalTime {
			_ = os.Remove(path)
			continue
		}
		client, _, _ := strings.Cut(e.Name(), "-")
		j.left[client] = append(j.left[client], path)
	}
	return j, nil
}

// clientKey names a client in the names of its files.
func clientKey(p place) string {
	b, _ := json.Marshal([]string{p.hub, string(p.user), string(p.kernel), p.name}) // strings always go
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// claim returns what a client had sent to a process before that was killed, and what forgets it. A client is asked
// about once.
func (j *Journal) claim(p place) (messages [][]byte, forget func()) {
	if j == nil {
		return nil, nothing
	}
	j.mu.Lock()
	if time.Since(j.began) > journalTime {
		for _, paths := range j.left {
			removeAll(paths)
		}
		clear(j.left)
	}
	key := clientKey(p)
	paths := j.left[key]
	delete(j.left, key)
	j.mu.Unlock()
	for _, path := range paths {
		kept, err := readPage(path)
		if err != nil {
			j.log.Warn("what a kernel's client had sent before the service was killed cannot be read",
				"file", path, "error", err)
		}
		messages = append(messages, kept...)
	}
	return messages, func() { removeAll(paths) }
}

func removeAll(paths []string) {
	for _, path := range paths {
		_ = os.Remove(path)
	}
}

// readPage returns the messages of a file that were not taken. One that was being written when the process was killed
// is left out.
func readPage(path string) (kept [][]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		var head [recordHead]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return kept, unfinished(err)
		}
		n := binary.BigEndian.Uint32(head[1:])
		switch {
		case head[0] == recordTaken && int(n) <= len(kept):
			kept = kept[n:]
		case head[0] == recordMessage && n <= wire.Limit:
			data := make([]byte, n)
			if _, err := io.ReadFull(in, data); err != nil {
				return kept, unfinished(err)
			}
			kept = append(kept, data)
		default:
			return kept, errors.New("it is damaged")
		}
	}
}

func unfinished(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// page is the journal of one outbox. It has a file while a message waits, and a little longer: to make and remove one
// for each message would take several times as long. The outbox's lock is held with all of its methods; nil keeps
// nothing.
type page struct {
	journal *Journal
	client  string
	file    *os.File // nil: nothing waits
	size    int64
	rests   time.Time // since when nothing waits, if there is a file
	failed  bool      // what waits is not kept
}

// page returns the journal of a client that is here.
func (j *Journal) page(p place) *page {
	if j == nil {
		return nil
	}
	return &page{journal: j, client: clientKey(p)}
}

// add keeps a message. Without room on the disk it is sent all the same.
func (p *page) add(v1 []byte) {
	if p == nil || p.failed {
		return
	}
	err := p.open()
	if err == nil {
		err = p.write(recordMessage, len(v1), v1)
	}
	if err != nil {
		p.fail(err)
	}
}

// took notes that the oldest messages were taken; kept are those that wait.
func (p *page) took(n int, kept []said) {
	if p == nil {
		return
	}
	p.failed = p.failed && len(kept) > 0
	if p.file == nil {
		return
	}
	waits := int64(0)
	for _, s := range kept {
		waits += recordHead + int64(len(s.v1))
	}
	switch {
	case len(kept) == 0:
		p.empty()
	case p.size > 2*waits+journalMore:
		p.replace(kept)
	default:
		if err := p.write(recordTaken, n, nil); err != nil {
			p.fail(err)
		}
	}
}

// replace has all that waits, and nothing else.
func (p *page) replace(kept []said) {
	if p == nil {
		return
	}
	older := *p
	p.file = nil
	for _, s := range kept {
		p.add(s.v1)
	}
	older.drop()
}

func (p *page) open() (err error) {
	if p.file != nil {
		return nil
	}
	name := fmt.Sprintf("%s-%016x-%08x", p.client, p.journal.began.UnixNano(), p.journal.files.Add(1))
	p.size = 0
	p.file, err = os.OpenFile(filepath.Join(p.journal.dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	return err
}

func (p *page) write(record byte, n int, data []byte) error {
	head := binary.BigEndian.AppendUint32(append(make([]byte, 0, recordHead+min(len(data), joined)), record), uint32(n))
	if len(data) <= joined {
		head, data = append(head, data...), nil
	}
	_, err := p.file.Write(head)
	p.size += int64(len(head))
	if err == nil && len(data) > 0 {
		_, err = p.file.Write(data)
		p.size += int64(len(data))
	}
	return err
}

// fail keeps no part of what cannot be kept whole.
func (p *page) fail(err error) {
	p.drop()
	p.failed = true
	if !p.journal.fails.Swap(true) {
		p.journal.log.Warn("what kernels' clients send cannot be kept for a restart of the service",
			"directory", p.journal.dir, "error", err)
	}
}

// empty forgets all; more may come soon.
func (p *page) empty() {
	if p.rests, p.size = time.Now(), 0; p.file.Truncate(0) != nil {
		p.drop()
	}
}

// rest removes the file of a client that says nothing.
func (p *page) rest() {
	if p != nil && p.file != nil && p.size == 0 && time.Since(p.rests) > restAfter {
		p.drop()
	}
}

// drop forgets all, and removes the file.
func (p *page) drop() {
	if p != nil && p.file != nil {
		_ = os.Remove(p.file.Name())
		_ = p.file.Close()
		p.file = nil
	}
}

// close leaves what waits to the next process.
func (p *page) close() {
	switch {
	case p == nil || p.file == nil:
	case p.size == 0:
		p.drop()
	default:
		_ = p.file.Close() // nothing waits in memory to be written
		p.file = nil
	}
}
