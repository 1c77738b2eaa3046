package mps

import (
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"strings"

	"slipway/internal/units"
)

// refused returns the line in which the control program says no, which it may do and exit with success.
func refused(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		low := strings.ToLower(line)
		if slices.ContainsFunc(refusals(), func(word string) bool { return strings.HasPrefix(low, word) }) {
			return clip(line)
		}
	}
	return ""
}

// refusals are the beginnings of lines that say no.
func refusals() []string {
	return []string{
		"cannot ", "error", "failed", "failure", "invalid", "unknown", "unrecognized", "unable", "permission denied",
		"not permitted",
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clip(strings.TrimSpace(line))
}

// clip keeps a line of a foreign program short.
func clip(line string) string {
	if len(line) > 300 {
		line = line[:300]
	}
	return strings.ToValidUTF8(line, "?")
}

// parsePIDs reads a list of process ids, one a line. Lines that are none are left out.
func parsePIDs(text string) []int {
	var pids []int
	for line := range strings.Lines(text) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parsePercent reads the answer to a question for a thread percentage: "25.0".
func parsePercent(text string) (float64, bool) {
	word := strings.TrimSuffix(lastWord(text), "%")
	f, err := strconv.ParseFloat(word, 64)
	return f, err == nil && f > 0 && f <= 100 && !math.IsNaN(f)
}

// parseMemory reads the answer to a question for a memory limit: "20G", "20480M". ok is false when there is none.
func parseMemory(text string) (bytes int64, unit int64, ok bool) {
	word := strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(lastWord(text), "iB"), "B"))
	bytes, err := units.ParseMemory(word)
	if err != nil || bytes <= 0 {
		return 0, 0, false
	}
	unit = 1
	for i, letter := range "KMGT" {
		if strings.HasSuffix(word, string(letter)) {
			unit = 1 << (10 * (i + 1))
		}
	}
	return bytes, unit, true
}

func lastWord(text string) string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// samePercent reports whether a daemon's answer is the percentage that it was given.
func samePercent(text string, want int) bool {
	f, ok := parsePercent(text)
	return ok && math.Abs(f-float64(want)) < 0.01
}

// sameMemory reports whether a daemon's answer is the limit that it was given. Drivers round it down to the unit that
// they print: 1536M comes back as "1G".
func sameMemory(text string, want int64) bool {
	got, unit, ok := parseMemory(text)
	want = want >> 20 << 20
	return ok && (got == want || unit > 1<<20 && got == want/unit*unit)
}

// limit writes a memory limit as both protocols read it.
func limit(bytes int64) string { return strconv.FormatInt(bytes>>20, 10) + "M" }

// parseRows reads a table in CSV without a heading. Lines that are no CSV are left out.
func parseRows(text string, columns int) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		row, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil { // a user's command line may hold quotes
			row = strings.Split(line, ",")
		}
		if len(row) < columns {
			continue
		}
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		rows = append(rows, row)
	}
	return rows
}

// space is a namespace of a daemon of protocol 3.
type space struct{ name, server, status, memory, percent string }

// parseSpaces reads "namespace list": name, server, server status, memory limit, thread percentage, priority,
// directory.
func parseSpaces(text string) []space {
	var all []space
	for _, row := range parseRows(text, 5) {
		all = append(all, space{name: row[0], server: row[1], status: row[2], memory: row[3], percent: row[4]})
	}
	return all
}

// server is a server of a daemon of protocol 3.
type server struct {
	name   string
	pid    int
	status string
}

// parseServers reads "server list": name, uid, pid, status, directory, devices, contexts.
func parseServers(text string) []server {
	var all []server
	for _, row := range parseRows(text, 4) {
		pid, _ := strconv.Atoi(row[2])
		all = append(all, server{name: row[0], pid: pid, status: row[3]})
	}
	return all
}

// client is a process that uses a GPU through a daemon of protocol 3.
type client struct {
	pid   int
	space string
}

// parseClients reads "client list": process id, server, device, namespace, command. The command is the user's own text,
// and last.
func parseClients(text string) []client {
	var all []client
	for _, row := range parseRows(text, 4) {
		if pid, err := strconv.Atoi(row[0]); err == nil && pid > 0 {
			all = append(all, client{pid: pid, space: row[3]})
		}
	}
	return all
}

// faulty reports whether a server's state, as either protocol prints it, is that after a fatal fault.
func faulty(status string) bool { return strings.Contains(strings.ToUpper(status), "FAULT") }
