package kernelproxy

import (
	"encoding/json"
	"strings"
)

// introduce answers those who have long asked what kernel it is: some programs give up a kernel that does not answer
// within a minute, and for a slice it may have to wait longer.
func (b *bridge) introduce() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = true
	if b.running {
		return
	}
	for _, r := range b.asked.open("kernel_info_request") {
		if b.asked.withdraw(r) {
			b.present(r)
		}
	}
}

// present says of a kernel that is not there what is known of it. JupyterLab takes no notice of the status that goes
// with such an answer, and shows that of the kernel as unknown until there is another: it is idle, as who runs a cell
// is told under it what that waits for.
func (b *bridge) present(r *request) {
	r.open = false
	b.publish(r.m.Header, "status", map[string]string{"execution_state": "busy"})
	b.reply(r.from, r.m, "kernel_info_reply", map[string]any{
		"status": "ok", "protocol_version": "5.3", "implementation": "slipway", "implementation_version": "1",
		"banner": "A kernel of Slipway, which is not there yet", "help_links": []any{},
		"language_info": languageInfo(b.cfg.Language),
	})
	for _, parent := range []json.RawMessage{r.m.Header, nil} {
		b.publish(parent, "status", map[string]string{"execution_state": "idle"})
	}
}

func languageInfo(language string) map[string]any {
	info := map[string]any{"name": language, "version": "", "mimetype": "text/plain", "file_extension": ".txt"}
	if strings.EqualFold(language, "python") {
		info["mimetype"], info["file_extension"] = "text/x-python", ".py"
		info["pygments_lexer"], info["nbconvert_exporter"] = "ipython3", "python"
		info["codemirror_mode"] = map[string]any{"name": "ipython", "version": 3}
	}
	return info
}

// progress takes note of how far the kernel's start has come.
func (b *bridge) progress(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text == b.said || text == "" {
		return
	}
	b.said, b.shows = text, nil
	b.show()
}

// show tells under the first cell that waits why it does. The lock is held.
func (b *bridge) show() {
	waiting := b.asked.open("execute_request")
	if b.running || len(waiting) == 0 || b.shows == waiting[0] {
		return
	}
	b.clear()
	b.shows = waiting[0]
	text := b.said
	if text == "" {
		text = "The kernel is being started"
	}
	b.publish(b.shows.m.Header, "stream", map[string]string{"name": "stderr", "text": "Slipway: " + text + "\n"})
	b.told = b.shows
}

// clear takes away what was told under a cell. The lock is held.
func (b *bridge) clear() {
	if b.told != nil {
		b.publish(b.told.m.Header, "clear_output", map[string]bool{"wait": false})
	}
	b.told, b.shows = nil, nil
}
