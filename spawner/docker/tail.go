package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// How much of what a first process printed is told: so many lines, and of them so many bytes. mostOfLog bounds what is
// read for it.
const (
	tailLines = 40
	tailBytes = 8 << 10
	mostOfLog = 1 << 20
)

// headstart is by how much a process may have begun to print before the engine took down that it runs. It is less than
// lies between the end of a run and the next one.
const headstart = 300 * time.Millisecond

// tail returns the last lines that a container's first process printed in its last run; nothing when they cannot be
// had: they are good to know, and no more.
func (b *Backend) tail(ctx context.Context, c container.InspectResponse) string {
	switch c.HostConfig.LogConfig.Type {
	case "local", "json-file":
	default:
		return "" // it may lie on another machine, or nowhere
	}
	ctx, cancel := context.WithTimeout(ctx, shortly)
	defer cancel()
	text, err := b.printed(ctx, c)
	if err != nil {
		b.log.Warn("what a container printed cannot be read", "container", c.Name, "error", err)
	}
	return text
}

func (b *Backend) printed(ctx context.Context, c container.InspectResponse) (string, error) {
	since := moment(c.State.StartedAt).Add(-headstart)
	log, err := b.client.ContainerLogs(ctx, c.ID, client.ContainerLogsOptions{
		ShowStdout: true, ShowStderr: true, Since: since.Format(time.RFC3339Nano), Tail: strconv.Itoa(tailLines),
	})
	if err != nil {
		return "", fmt.Errorf("read the log of %s: %w", c.Name, err)
	}
	defer log.Close()
	var text bytes.Buffer
	if c.Config.Tty {
		_, err = io.Copy(&text, io.LimitReader(log, mostOfLog))
	} else {
		_, err = stdcopy.StdCopy(&text, &text, io.LimitReader(log, mostOfLog))
	}
	return clean(text.String()), err
}

// clean makes fit for a page and a terminal what a program printed: its last lines, without control characters.
func clean(text string) string {
	text = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]").ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), "")
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) > tailBytes {
		text = strings.ToValidUTF8(text[len(text)-tailBytes:], "")
	}
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
