package diagnosis

import (
	"slices"
	"strings"
	"unicode"
)

// traceback is the line above which Python writes nothing of an exception that ends it. What stands before it in that
// line, such as a rank or a frame, stands before all of it.
const traceback = "Traceback (most recent call last):"

// links are what Python writes between an exception and the one that it has led to.
var links = []string{"The above exception was the direct cause of", "During handling of the above exception"}

// wrappers are exceptions by which one process tells of the end of another: why that was, the other has printed before.
var wrappers = []string{"CalledProcessError", "ChildFailedError", "ProcessExitedException"}

// LastWords returns those of the last lines that a payload has printed which may say what has ended it, the earliest
// first. Where it has ended by an exception of Python only that does, with what has led to it: what an earlier line
// tells of was caught.
func LastWords(lines []string) []string {
	lines = lines[:lastWord(lines)+1]
	ends := max(0, len(lines)-diagnosisLines)
	if len(lines) == 0 {
		return nil
	}
	at, from := lastRaised(lines)
	switch last := lines[len(lines)-1]; {
	case at < len(lines)-1 && isException(last):
		return lines[len(lines)-1:]
	case at < ends:
		return lines[ends:]
	default:
		return append(ledTo(lines[:from], lines[at]), lines[at:]...)
	}
}

// longestReason is how many characters of an exception are a reason. Its message may be anything, of any length.
const longestReason = 300

// exceptionIn returns the exception by which a payload has ended, in one line as Python writes it; empty: it has not
// ended by one.
func exceptionIn(tail string) string {
	lines := strings.Split(tail, "\n")
	lines = lines[:lastWord(lines)+1]
	if len(lines) == 0 {
		return ""
	}
	at, from := lastRaised(lines)
	switch last := lines[len(lines)-1]; {
	case at < len(lines)-1 && isException(last):
		return inOneLine(last)
	case at < max(0, len(lines)-diagnosisLines):
		return ""
	default:
		prefix, _ := strings.CutSuffix(lines[from], traceback)
		return inOneLine(strings.TrimPrefix(lines[at], prefix))
	}
}

// inOneLine returns what is printable of a text, shortened.
func inOneLine(text string) string {
	printable := []rune(strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)))
	if len(printable) > longestReason {
		return string(printable[:longestReason]) + "..."
	}
	return string(printable)
}

// ledTo returns the exceptions that have led to one whose traceback begins after some lines.
func ledTo(before []string, raised string) []string {
	at, from := lastRaised(before)
	if at < 0 || !tells(raised, wrappers) && !slices.ContainsFunc(before[at:], func(l string) bool { return tells(l, links) }) {
		return nil
	}
	return append(ledTo(before[:from], before[at]), before[at])
}

// lastRaised finds the last exception with a traceback, and where that begins; -1: there is none.
func lastRaised(lines []string) (at, from int) {
	for from = len(lines) - 1; from >= 0; from-- {
		prefix, is := strings.CutSuffix(lines[from], traceback)
		if !is {
			continue
		}
		for at = from + 1; at < len(lines); at++ {
			line := strings.TrimPrefix(lines[at], prefix)
			if line != "" && !strings.ContainsAny(line[:1], " \t|") {
				return at, from
			}
		}
	}
	return -1, -1
}

// lastWord returns the index of the last line that is not empty; -1: all are.
func lastWord(lines []string) int {
	for i, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) != "" {
			return i
		}
	}
	return -1
}

// isException reports whether a line is how Python writes an exception: "ValueError: math domain error".
func isException(line string) bool {
	name, _, _ := strings.Cut(line, ":")
	return !strings.ContainsAny(name, " \t") && (strings.HasSuffix(name, "Error") ||
		strings.HasSuffix(name, "Exception"))
}

func tells(line string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
}
