package sshd

import (
	"io"
	"testing"
	"time"
)

// What was shown before the end is read also where the lull is over before anybody has looked.
func TestLateReaderMissesNothing(t *testing.T) {
	term, err := newTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	program, err := term.program()
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close() // what is in the background holds it
	if _, err := io.WriteString(program, "last"); err != nil {
		t.Fatal(err)
	}
	if err := term.master.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := term.Read(b); string(b[:n]) != "last" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	if n, err := term.Read(b); n != 0 || err != io.EOF {
		t.Errorf("%q, %v", b[:n], err)
	}
}
