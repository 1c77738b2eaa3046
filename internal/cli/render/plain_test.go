package render

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestEscapesDoNotReachTheTerminal has what others wrote shown without what a terminal acts on, in whatever pieces it
// comes.
func TestEscapesDoNotReachTheTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\r\n50 %\r100 %\n":                     "plain\ttext\r\n50 %\r100 %\n",
		"gr\u00fc\u00dfe \u4f60\u597d \U0001f680":          "gr\u00fc\u00dfe \u4f60\u597d \U0001f680",
		"\x1b[31mred\x1b[0m":                               "red",
		"\x1b[2J\x1b[1;1Hgone":                             "gone",
		"\x1b]0;title\x07x":                                "x",
		"\x1b]52;c;cm0gLXJmCg==\x1b\\x":                    "x",
		"\x1b]8;;http://evil.test\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1bP+q544e\x1b\\x":                               "x",
		"\x1b_apc\x1b\\x\x1b^pm\x1b\\y":                    "xy",
		"\x1b(0x\x1bcy\x1b7z":                              "xyz",
		"\u009b31mx\u009d0;t\u009cy":                       "xy",
		"a\bb\x07c\x00d\x7fe":                              "a\ufffdb\ufffdc\ufffdd\ufffde",
		"\u202egpj.exe\u2066":                              "\ufffdgpj.exe\ufffd",
		"\xff\x9bx":                                        "\ufffd\ufffdx",
		"\x1b]0;never ends\nthe next":                      "\nthe next",
		"\x1b[12;34\x1b[31mx":                              "x",
		"\x1b]a\x1b]b\x07x":                                "x",
		"ends in a rune \xe4\xbd":                          "ends in a rune \ufffd",
		"ends in a sequence \x1b[3":                        "ends in a sequence ",
		"\x1b\x1b\x1b[31mx\x1b[1;2;3;4m":                   "x",
	} {
		for _, size := range []int{1, 2, 3, len(text)} {
			var b strings.Builder
			p := &plainWriter{w: &b}
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if wrote, err := p.Write([]byte(rest[:n])); wrote != n || err != nil {
					t.Fatal(wrote, err)
				}
				rest = rest[n:]
			}
			p.flush()
			if b.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", text, size, &b, want)
			}
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[31mx\x1b]0;t\x07\u009b1m")
	f.Fuzz(func(t *testing.T, text string) {
		if shown := strings.NewReplacer("\n", "", "\t", "", "\r", "").Replace(Paragraphs(text)); strings.ContainsFunc(shown, acts) {
			t.Errorf("%q is shown as %q", text, shown)
		}
	})
}

// TestRawOutput: files and pipes get the bytes, and so does who asks for them.
func TestRawOutput(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if w, _ := ForTerminal(file, false); w != file {
		t.Error("a file does not get the bytes")
	}
	if w, _ := ForTerminal(device, true); w != device {
		t.Error("--raw is not heeded")
	}
	if w, _ := ForTerminal(device, false); w == device {
		t.Error("a terminal gets the bytes")
	}
}

func TestJSONIsShownPlain(t *testing.T) {
	var b bytes.Buffer
	want := map[string]string{"name": "a\u009b31m\u202eb\x7f\x1b\nc"}
	if err := JSON(&b, want); err != nil || strings.ContainsAny(b.String(), "\u009b\u202e\x7f\x1b") {
		t.Errorf("%q, %v", &b, err)
	}
	got := map[string]string{}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got["name"] != want["name"] {
		t.Errorf("%q, %v", got, err)
	}
}
