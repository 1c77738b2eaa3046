package driverrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/gpu"
)

// answers runs a server over a whole input.
func answers(t *testing.T, d gpu.Driver, in string) ([]answer, error) {
	t.Helper()
	var out bytes.Buffer
	err := Serve(t.Context(), d, strings.NewReader(in), &out)
	var found []answer
	for dec := json.NewDecoder(&out); dec.More(); {
		var a answer
		if err := dec.Decode(&a); err != nil {
			t.Fatal(err)
		}
		found = append(found, a)
	}
	return found, err
}

func TestServeRefuses(t *testing.T) {
	d := host(t, "H200")
	for _, in := range []string{"x\n", "{\n", `{"id":"x"}` + "\n", strings.Repeat(" ", longestRequest+1)} {
		if _, err := answers(t, d, in); err == nil {
			t.Errorf("%.20q is taken for a request", in)
		}
	}
	found, err := answers(t, d, `{"id":1,"method":"reboot"}`+"\n"+`{"id":9,"method":"cancel"}`+"\n")
	if err != nil || len(found) != 2 || found[0].Protocol != protocol || found[1].Fault == nil || !strings.Contains(found[1].Fault.Text, "reboot") {
		t.Errorf("%+v, %v", found, err)
	}
}

// slow is a driver that takes no notice of its context.
type slow struct {
	gpu.Driver
	takes time.Duration
}

func (s slow) Health(context.Context, string) (gpu.Health, error) {
	time.Sleep(s.takes)
	return gpu.Health{Temperature: 30}, nil
}

func TestServeEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := `{"id":1,"method":"health"}` + "\n"
		found, err := answers(t, slow{takes: 3 * time.Second}, in)
		if err != nil || len(found) != 2 || found[1].ID != 1 || !strings.Contains(string(found[1].Result), "30") {
			t.Errorf("%+v, %v", found, err)
		}
		began := time.Now()
		if _, err := answers(t, slow{takes: time.Hour}, in); err == nil || time.Since(began) != farewell {
			t.Errorf("a driver that hangs holds it up for %s: %v", time.Since(began), err)
		}
		time.Sleep(time.Hour)
	})
}

func TestServeHasEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in strings.Builder
		for i := range atOnce + 10 {
			fmt.Fprintf(&in, `{"id":%d,"method":"health","uuid":"GPU-1"}`+"\n", i+1)
		}
		fmt.Fprintln(&in, `{"id":1000,"method":"health","uuid":"GPU-2"}`) // another one suffers no want
		found, err := answers(t, slow{takes: time.Second}, in.String())
		refused := 0
		for _, a := range found {
			if a.Fault != nil {
				refused++
			}
		}
		if err != nil || len(found) != atOnce+12 || refused != 10 {
			t.Errorf("%d answers, %d refused, %v", len(found), refused, err)
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, w := io.Pipe()
	defer w.Close()
	cancel()
	if err := Serve(ctx, host(t, "H200"), in, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestServeWithoutListener(t *testing.T) {
	out, w := io.Pipe()
	_ = out.Close()
	if err := Serve(t.Context(), host(t, "H200"), strings.NewReader(""), w); err == nil {
		t.Error("nobody listens, and that is no error")
	}
}

func FuzzServe(f *testing.F) {
	f.Add(`{"id":1,"method":"devices"}` + "\n" + `{"id":1,"method":"cancel"}`)
	f.Add(`{"id":2,"method":"create","uuid":"x","placement":{"start":-1}}`)
	f.Fuzz(func(t *testing.T, in string) {
		d := host(t, "H200")
		_ = Serve(t.Context(), d, strings.NewReader(in), io.Discard)
	})
}

// Whatever a helper says, the client ends its calls, and the error is one.
func FuzzClient(f *testing.F) {
	f.Add(`{"id":0,"protocol":1}` + "\n" + `{"id":1,"result":{"driver":"x"}}` + "\n")
	f.Add(`{"id":0,"protocol":1,"fault":{"text":"x","kind":"no_driver","code":"missing"}}` + "\n")
	f.Add("\n\n")
	f.Fuzz(func(t *testing.T, says string) {
		c := New(Config{Logger: quiet(), Start: inside(func(in io.Reader, out io.Writer) {
			_, _ = in.Read(make([]byte, 1000))
			_, _ = io.WriteString(out, says)
		})})
		_, _ = c.System(t.Context())
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
