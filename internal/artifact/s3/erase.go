package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-hq/parley/chat"
)

const (
	pageSize = 1000
	removers = 8       // objects that are removed at the same time
	maxPage  = 8 << 20 // bytes of a list
)

// listed is an object in a list.
type listed struct {
	Key  string `xml:"Key"`
	Size int64  `xml:"Size"`
}

// DeleteSession implements artifact.Blobs.
func (s *Store) DeleteSession(ctx context.Context, id chat.SessionID) (count int, bytes int64, err error) {
	if err := id.Validate(); err != nil {
		return 0, 0, err
	}
	if err = s.endUploads(ctx, id); err == nil {
		count, bytes, err = s.removeAll(ctx, s.folder(id))
	}
	if err != nil {
		err = s.failed(ctx, "the files of an erased session were not removed", nil, err)
	}
	return count, bytes, err
}

// removeAll removes the objects of a folder until a list has none.
func (s *Store) removeAll(ctx context.Context, folder string) (count int, bytes int64, err error) {
	first := ""
	for {
		page, err := s.list(ctx, folder, pageSize)
		switch {
		case err != nil:
			return count, bytes, err
		case len(page) == 0:
			return count, bytes, nil
		case page[0].Key == first:
			return count, bytes, errors.New("the service lists objects that were removed")
		}
		first = page[0].Key
		var wait sync.WaitGroup
		errs := make([]error, len(page))
		slots := make(chan struct{}, removers)
		for i, o := range page {
			slots <- struct{}{}
			wait.Go(func() {
				errs[i] = s.remove(ctx, o.Key)
				<-slots
			})
		}
		wait.Wait()
		for i, o := range page {
			if errs[i] != nil {
				return count, bytes, errs[i]
			}
			count, bytes = count+1, bytes+o.Size
		}
	}
}

// list returns the first objects of a folder.
func (s *Store) list(ctx context.Context, folder string, limit int) ([]listed, error) {
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []listed `xml:"Contents"`
	}
	err := s.get(ctx, url.Values{"list-type": {"2"}, "prefix": {folder}, "max-keys": {strconv.Itoa(limit)}}, &page)
	if err != nil {
		return nil, err
	}
	for _, o := range page.Contents { // all of them are going to be removed
		if !strings.HasPrefix(o.Key, folder) {
			return nil, errors.New("the service lists objects of another folder")
		}
	}
	return page.Contents, nil
}

// get reads an answer about the bucket.
func (s *Store) get(ctx context.Context, query url.Values, into any) error {
	res, err := s.client.do(ctx, &request{method: http.MethodGet, query: query})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := xml.NewDecoder(io.LimitReader(res.Body, maxPage)).Decode(into); err != nil {
		return fmt.Errorf("the answer of the service is not valid: %w", err)
	}
	return nil
}

// Check asks whether the bucket can be used. versions says that it keeps removed objects.
func (s *Store) Check(ctx context.Context) (versions bool, err error) {
	if _, err := s.list(ctx, s.opt.Location.Prefix, 1); err != nil {
		return false, err
	}
	var v struct {
		XMLName xml.Name `xml:"VersioningConfiguration"`
		Status  string   `xml:"Status"`
	}
	err = s.get(ctx, url.Values{"versioning": {""}}, &v)
	if _, ok := errors.AsType[*statusError](err); ok {
		return false, nil // not every service has versions, and the credentials may not allow the question
	}
	return v.Status == "Enabled", err
}
