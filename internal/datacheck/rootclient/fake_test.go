package rootclient

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway/internal/secret"
)

// fake is a server that lets everybody in and answers as it is told. Nothing answered: it hangs up.
type fake struct {
	tls    *tls.Config // nil: it does not encrypt
	proof  string      // the kinds that it asks for
	answer func(request uint16, body []byte) []part
}

type part struct {
	kind uint16
	body []byte
}

// serve returns the port of a server.
func (f fake) serve(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.talk(c)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func (f fake) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	protocol := []byte{0, 0, 5, 0x11, 0, 0, 0, 0}
	if f.tls != nil {
		binary.BigEndian.PutUint32(protocol[4:], gotoTLS)
	}
	if _, err := io.ReadFull(c, make([]byte, 20)); err != nil {
		return
	}
	say(c, part{saysOK, make([]byte, 8)}) // to the greeting
	for {
		request, body, err := heard(c)
		if err != nil {
			return
		}
		switch request {
		case reqProtocol:
			say(c, part{saysOK, protocol})
			if f.tls != nil {
				c = tls.Server(c, f.tls)
			}
		case reqLogin:
			say(c, part{saysOK, append(make([]byte, 16), f.proof...)})
		default:
			parts := f.answer(request, body)
			say(c, parts...)
			if len(parts) == 0 {
				return
			}
		}
	}
}

func heard(c net.Conn) (request uint16, body []byte, err error) {
	var head [24]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[20:]))
	_, err = io.ReadFull(c, body)
	return binary.BigEndian.Uint16(head[2:]), body, err
}

// say answers; that nobody listens any more is seen at the next request.
func say(c net.Conn, parts ...part) {
	for _, p := range parts {
		b := binary.BigEndian.AppendUint16([]byte{0, 1}, p.kind)
		b = binary.BigEndian.AppendUint32(b, uint32(len(p.body)))
		_, _ = c.Write(append(b, p.body...))
	}
}

// always answers so, whatever is asked.
func always(parts ...part) func(uint16, []byte) []part {
	return func(uint16, []byte) []part { return parts }
}

func server(port int) string { return "root://127.0.0.1:" + strconv.Itoa(port) }

// TestTokenGoesNowhereElse: a token is shown to another server where one sends that is itself sure to be the right one,
// and to none that somebody on the way may have named.
func TestTokenGoesNowhereElse(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	own := &tls.Config{Certificates: web.TLS.Certificates}
	for _, c := range []struct {
		name string
		by   []*tls.Config // the servers that send on
		want bool          // it is shown
	}{
		{"encrypted", []*tls.Config{own}, true},
		{"not encrypted", []*tls.Config{nil}, false},
		{"first not encrypted", []*tls.Config{nil, own}, false},
		{"then not encrypted", []*tls.Config{own, nil}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			shown := make(chan bool, 8)
			at := fake{tls: own, proof: "&P=ztn,0:4096:", answer: func(request uint16, body []byte) []part {
				if request == reqAuth {
					shown <- bytes.Contains(body, []byte("TOKEN-XYZ"))
				}
				return []part{{saysOK, nil}}
			}}.serve(t)
			for i := len(c.by) - 1; i >= 0; i-- {
				to := append(binary.BigEndian.AppendUint32(nil, uint32(at)), "127.0.0.1"...)
				at = fake{tls: c.by[i], answer: always(part{saysRedirect, to})}.serve(t)
			}
			_, err := Client{Token: secret.New("TOKEN-XYZ"), Roots: roots}.List(within(t), server(at), "/data")
			if c.want && (err != nil || len(shown) != 1 || !<-shown) || !c.want && (!errors.Is(err, errAstray) || len(shown) != 0) {
				t.Errorf("%v, shown %d times", err, len(shown))
			}
		})
	}
}

// TestLongDirectory: of a directory that does not end, what was read is there.
func TestLongDirectory(t *testing.T) {
	var many []part
	for lines := range slices.Chunk([]byte(".\n0 0 0 0\n"+strings.Repeat("name\n1 5 8 0\n", most/12)), 1<<20-1) {
		many = append(many, part{saysMore, lines})
	}
	at := fake{answer: always(many...)}.serve(t)
	list, err := Client{}.List(within(t), server(at), "/data")
	if !errors.Is(err, ErrMore) || len(list) < most/15 || list[len(list)-1] != (Entry{Name: "name", Offline: true, Size: 5}) {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

// TestHalfAFile: a file that may have been made is told from one that was not.
func TestHalfAFile(t *testing.T) {
	no := part{saysError, append([]byte{0, 0, 0x0b, 0xc2}, "no"...)}
	for name, c := range map[string]struct {
		answers map[uint16][]part
		half    bool
	}{
		"refused":               {map[uint16][]part{reqOpen: {no}}, false},
		"no answer":             {nil, true},
		"refused while written": {map[uint16][]part{reqOpen: {{saysOK, make([]byte, 4)}}, reqWrite: {no}}, true},
	} {
		at := fake{answer: func(request uint16, _ []byte) []part { return c.answers[request] }}.serve(t)
		if err := (Client{}).Write(within(t), server(at), "/data/new", []byte("x")); err == nil || errors.Is(err, ErrHalf) != c.half {
			t.Errorf("%s: %v", name, err)
		}
	}
}
