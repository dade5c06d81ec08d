package artifact

import (
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

const maxMediaType = 255

// byExtension has the types that the first bytes do not show. The tables of the
// operating system differ from machine to machine, so they are not used.
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

// mediaTypeOf returns the media type that the sender gave, else that of the first bytes,
// else that of the file name extension.
func mediaTypeOf(said, name string, head []byte) string {
	if said != "" {
		return said
	}
	seen := http.DetectContentType(head)
	switch kind, _, _ := strings.Cut(seen, ";"); kind {
	// These are also the result for formats without a signature.
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
		return chat.Errorf(chat.Invalid, "%q is not a media type such as text/csv", text.Clip(s, 80))
	}
	return nil
}
