package artifact

import (
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/parley-hq/parley/chat"
)

const maxMediaType = 255

// byExtension names what cannot be told from the first bytes. The system's own
// tables differ from machine to machine, so they are not asked.
var byExtension = map[string]string{
	".css":     "text/css; charset=utf-8",
	".csv":     "text/csv; charset=utf-8",
	".docx":    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".htm":     "text/html; charset=utf-8",
	".html":    "text/html; charset=utf-8",
	".js":      "text/javascript; charset=utf-8",
	".json":    "application/json",
	".jsonl":   "application/x-ndjson",
	".md":      "text/markdown; charset=utf-8",
	".mjs":     "text/javascript; charset=utf-8",
	".ndjson":  "application/x-ndjson",
	".parquet": "application/vnd.apache.parquet",
	".pptx":    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".svg":     "image/svg+xml",
	".tsv":     "text/tab-separated-values; charset=utf-8",
	".xlsx":    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".xml":     "application/xml",
	".yaml":    "application/yaml",
	".yml":     "application/yaml",
}

// mediaTypeOf settles a media type: what the sender said, else what the first
// bytes show, else what the name promises.
func mediaTypeOf(said, name string, head []byte) string {
	if said != "" {
		return said
	}
	seen := http.DetectContentType(head)
	switch kind, _, _ := strings.Cut(seen, ";"); kind {
	// These are also what is seen of formats that have no mark of their own.
	case "text/plain", "application/octet-stream", "text/xml", "application/zip":
		if named, ok := byExtension[strings.ToLower(path.Ext(name))]; ok {
			return named
		}
	}
	return seen
}

func checkMediaType(s string) error {
	if s == "" {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(s); len(s) > maxMediaType || err != nil || !strings.Contains(kind, "/") {
		return chat.Errorf(chat.Invalid, "%q is not a media type such as text/csv", clip(s))
	}
	return nil
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
