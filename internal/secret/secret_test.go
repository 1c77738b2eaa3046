package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestNoWayOfPrintingLeaks(t *testing.T) {
	type holder struct {
		Env map[string]Text
		One *Text
		Two Text
	}
	s := New("hunter2")
	h := holder{Env: map[string]Text{"TOKEN": s}, One: &s, Two: s}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "h", h, "s", s)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "h", h, "s", s)
	encoded, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	outputs := []string{log.String(), string(encoded)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		outputs = append(outputs, fmt.Sprintf(verb, h), fmt.Sprintf(verb, s), fmt.Sprintf(verb, h.Env))
	}
	for _, out := range outputs {
		if strings.Contains(out, "hunter2") {
			t.Errorf("leaked in %q", out)
		}
	}
}

func TestEqual(t *testing.T) {
	if !New("a").Equal("a") || New("a").Equal("b") || New("").Equal("") {
		t.Error("a secret equals its value only, and the empty one equals nothing")
	}
}
