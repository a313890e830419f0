package openstack

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// place reads where the services are and how to trust them.
func (r *entryReader) place(e *Entry) {
	e.Region = r.text("region_name")
	if regions := r.said["regions"].list; e.Region == "" && len(regions) == 1 {
		e.Region = regions[0]
	} else if e.Region == "" && len(regions) > 1 {
		r.wrong = append(r.wrong, flaw{r.said["regions"].at, "region_name is missing; regions has " + strings.Join(regions, ", ")})
	}
	field := "interface"
	if !r.said.has(field) && r.said.has("endpoint_type") {
		field = "endpoint_type"
	}
	e.Interface = strings.TrimSuffix(cmp.Or(r.text(field), "public"), "URL")
	if !slices.Contains([]string{"public", "internal", "admin"}, e.Interface) {
		r.bad(field, "is %q; public, internal and admin are known", e.Interface)
	}
	for _, f := range []string{"verify", "insecure"} {
		if s := r.said[f]; s.kind == isFlag && (s.text == "false") == (f == "verify") && s.text != "0" {
			r.bad(f, "switches the check of certificates off")
			r.hint = "name the certificate authority in " + r.name("cacert") + " instead: certificates are always verified"
		}
	}
	e.Timeout = r.seconds("api_timeout", callTime)
	e.CACert = r.pem("cacert")
	e.Cert, e.Key = r.pem("cert"), r.pem("key")
	if r.said.has("cert") != r.said.has("key") {
		r.wrong = append(r.wrong, flaw{cmp.Or(r.said["cert"].at, r.said["key"].at), r.name("cert") + " and " + r.name("key") + " go together"})
	}
	for _, s := range Services() {
		for _, t := range s.types() {
			f := overrideField(t)
			u := r.text(f)
			if u == "" || e.Endpoints[s] != "" {
				continue
			}
			if HoldsLogin(u) {
				r.holdsLogin(f)
			} else if p, err := url.Parse(u); err != nil || p.Host == "" || p.Scheme != "http" && p.Scheme != "https" {
				r.bad(f, "is no http or https address: %q", u)
			}
			e.Endpoints[s] = u
		}
	}
}

// overrideField is the field that sets the endpoint of a type of service.
func overrideField(serviceType string) string {
	return strings.ReplaceAll(serviceType, "-", "_") + "_endpoint_override"
}

// seconds reads a field that is a number of seconds.
func (r *entryReader) seconds(field string, fallback time.Duration) time.Duration {
	s, ok := r.said[field]
	if !ok {
		return fallback
	}
	n, err := strconv.ParseFloat(s.text, 64)
	if err != nil || s.kind != isText || !(n > 0) || n > 1e6 {
		r.bad(field, "is no number of seconds above 0")
		return fallback
	}
	return time.Duration(n * float64(time.Second))
}

// pem reads a field that names a file, relative to the folder of clouds.yaml,
// or is the text of one.
func (r *entryReader) pem(field string) string {
	p := r.text(field)
	if p == "" || strings.HasPrefix(strings.TrimSpace(p), "-----BEGIN ") {
		return p
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			r.bad(field, "names the home folder, and there is none")
			return ""
		}
		p = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(p) {
		if r.dir == "" {
			r.bad(field, "is neither an absolute path nor a text in PEM form")
			return ""
		}
		p = filepath.Join(r.dir, p)
	}
	text, err := os.ReadFile(p)
	if err != nil {
		r.bad(field, "can't be read: %v", err)
	}
	return string(text)
}
