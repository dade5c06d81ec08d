package s3

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Location is where the objects are.
type Location struct {
	Bucket   string
	Prefix   string   // of all keys, without a slash at its ends; may be empty
	Endpoint *url.URL // of the service; the bucket is the first name in the path of a request
	Region   string
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]+[a-z0-9]$`)
	prefixName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
	regionName = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// ParseLocation reads s3://BUCKET[/PREFIX]. Without an endpoint it is that of AWS in the region.
func ParseLocation(s, endpoint, region string) (*Location, error) {
	rest, ok := strings.CutPrefix(s, "s3://")
	if !ok {
		return nil, fmt.Errorf("%q is not an address of the form s3://BUCKET or s3://BUCKET/PREFIX", s)
	}
	l := &Location{Region: region}
	l.Bucket, l.Prefix, _ = strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	switch {
	case len(l.Bucket) > 63 || !bucketName.MatchString(l.Bucket):
		return nil, fmt.Errorf("%q is not the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens", l.Bucket)
	case l.Prefix != "" && (!prefixName.MatchString(l.Prefix) || len(l.Prefix) > 500):
		return nil, fmt.Errorf("the prefix %q has other characters than letters, digits, dots, hyphens and underscores between single slashes", l.Prefix)
	case len(region) > 40 || !regionName.MatchString(region):
		return nil, fmt.Errorf("%q is not the name of a region", region)
	}
	if endpoint == "" {
		endpoint = "https://s3." + region + ".amazonaws.com"
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the endpoint is not an address of the form https://HOST[:PORT][/PATH]") // it may have a password
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), ""
	l.Endpoint = u
	return l, nil
}

// Encrypted reports whether requests are encrypted, or stay on this machine.
func (l *Location) Encrypted() bool {
	ip := net.ParseIP(l.Endpoint.Hostname())
	return l.Endpoint.Scheme == "https" || l.Endpoint.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func (l *Location) String() string {
	if l.Prefix == "" {
		return "s3://" + l.Bucket
	}
	return "s3://" + l.Bucket + "/" + l.Prefix
}
