package hosts_test

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

// A script and what it prints. Each runs on a fresh connection of one host, as
// the image's user, in /home/debian/w, which is empty.
type scriptCase struct {
	name, script, out string
	code              int
	err               string // part of the standard error
}

var coreutilsCases = []scriptCase{
	{name: "cat", script: "printf 'a\nb\n' > f; cat f - < f; cat -n f; cat none", out: "a\nb\na\nb\n     1\ta\n     2\tb\n", code: 1, err: "cat: none: No such file or directory"},
	{name: "tee", script: "echo x | tee a b; echo y | tee -a a >/dev/null; cat a b", out: "x\nx\ny\nx\n"},
	{name: "head tail", script: "seq 5 > f; head -n 2 f; head -1 f; head -c 3 f; tail -n 2 f; tail -n +4 f; head -n -3 f", out: "1\n2\n1\n1\n24\n5\n4\n5\n1\n2\n"},
	{name: "wc", script: "printf 'a b\nc' > f; wc -l f; wc -w < f; wc -c < f", out: "1 f\n3\n5\n"},
	{name: "cut", script: "echo a:b:c | cut -d: -f1,3; echo abcdef | cut -c2-4; echo abc | cut -d: -f2; echo abc | cut -sd: -f2", out: "a:c\nbcd\nabc\n"},
	{name: "tr", script: "echo 'Hello  World' | tr a-z A-Z; echo aabbcc | tr -s a-c; echo a1b2 | tr -d 0-9; echo 'x y' | tr '[:space:]' '\\n'", out: "HELLO  WORLD\nabc\nab\nx\ny\n"},
	{name: "sort uniq", script: "printf '10\n9\n9\n1\n' > f; sort f; sort -n f; sort -rn f | uniq; sort f | uniq -c; printf 'b 1\na 2\n' | sort -k2,2nr; printf 'v1.10\nv1.9\n' | sort -V; sort -u f | wc -l",
		out: "1\n10\n9\n9\n1\n9\n9\n10\n10\n9\n1\n      1 1\n      1 10\n      2 9\na 2\nb 1\nv1.9\nv1.10\n3\n"},
	{name: "lines", script: "seq 3 | tac; echo abc | rev; printf 'a\nb\n' | paste -s -d, -; echo abcdef | fold -w 2; printf 'a\nb\n' > x; printf 'b\nc\n' > y; comm -12 x y; nl x; expr 3 + 4; expr abc : 'a\\(.*\\)'",
		out: "3\n2\n1\ncba\na,b\nab\ncd\nef\nb\n     1\ta\n     2\tb\n7\nbc\n"},
	{name: "yes ends", script: "yes | head -n 2; seq 100000 | head -n 1", out: "y\ny\n1\n"},
	{name: "split od", script: "seq 4 | split -l 2 - p; cat pab; printf 'A' | od -An -tx1; seq -s, 1 2 7; seq -w 9 10", out: "3\n4\n 41\n1,3,5,7\n09\n10\n"},
	{name: "mkdir", script: "umask 022; mkdir -p a/b/c; mkdir -m 0700 d; stat -c '%a %F' a/b d; mkdir a", out: "755 directory\n700 directory\n", code: 1, err: "cannot create directory 'a': File exists"},
	{name: "umask", script: "umask; umask 077; umask; touch f; mkdir d; stat -c %a f d; (umask 002; touch g); stat -c %a g; umask; sh -c umask", out: "0022\n0077\n600\n700\n664\n0077\n0077\n"},
	{name: "rm", script: "mkdir d; touch d/f x; rm d; rm -rf d none; rm x; ls; rm none", out: "", code: 1, err: "cannot remove 'none': No such file or directory"},
	{name: "mv", script: "echo 1 > a; echo 2 > b; mv -f -T a b; cat b; mkdir d; mv b d; ls d; mv -T d e; ls e; mv none x", out: "1\nb\nb\n", code: 1, err: "cannot stat 'none'"},
	{name: "mv over a directory", script: "mkdir d e; touch e/x; mv -T d e", code: 1, err: "Directory not empty"},
	{name: "cp", script: "echo 1 > a; chmod 640 a; cp -a a b; stat -c %a b; mkdir -p d/e; cp a d/e; cp -r d f; cat f/e/a; ln -s a l; cp -a l m; readlink m; cp d x", out: "640\n1\na\n", code: 1, err: "omitting directory 'd'"},
	{name: "ln", script: "mkdir v1 v2; ln -s v1 cur; ln -sfn v2 cur; readlink cur; readlink -f cur; echo x > f; ln f g; stat -c %h f; ln -s none dangling; test -e dangling || echo gone; test -L dangling && echo link", out: "v2\n/home/debian/w/v2\n2\ngone\nlink\n"},
	{name: "ls", script: "touch b a .h; mkdir d; ls; ls -A; ls -1d d; ls -l a | cut -c1-10; ls none", out: "a\nb\nd\n.h\na\nb\nd\nd\n-rw-r--r--\n", code: 2, err: "cannot access 'none'"},
	{name: "chmod", script: "touch f; chmod 600 f; stat -c '%a %A' f; chmod u+x,g=r f; stat -c %a f; chmod a-w f; stat -c %04a f; chmod g+s f; stat -c %a f; chmod zz f", out: "600 -rw-------\n740\n0540\n2540\n", code: 1, err: "invalid mode"},
	{name: "chown", script: "touch f; sudo chown root:adm f; stat -c '%U:%G %u:%g' f; sudo chgrp debian f; stat -c %G f; sudo chown -R debian: . ; stat -c %U f; chown root f", out: "root:adm 0:4\ndebian\ndebian\n", code: 1, err: "Operation not permitted"},
	{name: "chown unknown", script: "chown nobody-here .", code: 1, err: "invalid user: 'nobody-here'"},
	{name: "stat", script: "echo hello > f; stat -c '%n %s %F' f; stat -c %F /; stat -c '%a %U' /etc/shadow; touch -d @1700000000 f; stat -c %Y f; stat -L -c %F /bin; stat none", out: "f 6 regular file\ndirectory\n640 root\n1700000000\ndirectory\n", code: 1, err: "cannot statx 'none'"},
	{name: "test", script: "touch f; [ -f f ] && [ ! -d f ] && [ -e f -a ! -s f ] && echo 1; test -x f || echo 2; [ -w /etc/passwd ] || echo 3; [ -r /etc/shadow ] || echo 4; [ 2 -gt 1 ] && [ a = a ] && [ -n x ] && [ -z '' ] && echo 5; test -O f && echo 6; sudo test -r /etc/shadow && echo 7", out: "1\n2\n3\n4\n5\n7\n"},
	{name: "install", script: "echo x > s; sudo install -m 0640 -o root -g adm s /etc/inst; stat -c '%a %U:%G' /etc/inst; install -d -m 0711 dd/ee; stat -c %a dd/ee; echo y | install -m 600 /dev/stdin fromstdin; cat fromstdin; install -D s deep/er/s; cat deep/er/s; sudo rm /etc/inst", out: "640 root:adm\n711\ny\nx\n"},
	{name: "mktemp", script: "f=$(mktemp); case $f in /tmp/tmp.??????????) echo ok;; esac; stat -c %a $f; d=$(mktemp -d -p .); stat -c '%a %F' $d; f=$(mktemp ./x.XXXXXX); test -f $f && echo made; f=$(mktemp -p /tmp gsrun.XXXX); echo ${f%.*}; rm -f $f; mktemp x", out: "ok\n600\n700 directory\nmade\n/tmp/gsrun\n", code: 1, err: "too few X's"},
	{name: "sums", script: "printf hello > f; sha256sum f; sha256sum < f | cut -c1-8; md5sum f; sha256sum f > s; sha256sum -c s; printf x > f; sha256sum -c s", out: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824  f\n2cf24dba\n5d41402abc4b2a76b9719d911017c592  f\nf: OK\nf: FAILED\n", code: 1, err: "1 computed checksum did NOT match"},
	{name: "base64", script: "printf 'hello world' | base64; printf aGVsbG8= | base64 -d; echo; head -c 100 /dev/zero | base64 -w0 | wc -c; echo '!' | base64 -d", out: "aGVsbG8gd29ybGQ=\nhello\n136\n", code: 1, err: "invalid input"},
	{name: "printf echo", script: `printf '%s|%d|%05.1f\n' a 3 2.5; printf '%s\n' a b; echo -n x; echo -e 'a\tb'; /usr/bin/printf '%s\n' c; printf '%b\n' 'a\tb'`, out: "a|3|002.5\na\nb\nxa\tb\nc\na\tb\n"},
	{name: "date", script: "date -u -d @0 +%Y-%m-%dT%H:%M:%SZ; date -u -d '2024-02-29' +%s; test $(date +%s) -gt 1000 && echo now", out: "1970-01-01T00:00:00Z\n1709164800\nnow\n"},
	{name: "who", script: "id -u; id -un; whoami; id; id -Gn; sudo id -u; id nobody-here", out: "1000\ndebian\ndebian\nuid=1000(debian) gid=1000(debian) groups=1000(debian),4(adm),27(sudo)\ndebian adm sudo\n0\n", code: 1, err: "no such user"},
	{name: "uname", script: "uname; uname -r; uname -m; uname -sn; hostname; arch", out: "Linux\n6.1.0-32-cloud-amd64\nx86_64\nLinux gw\ngw\nx86_64\n"},
	{name: "env", script: "export A=1; B=2; env | grep '^[AB]='; env -i X=3 env; env C=4 sh -c 'echo $C'; printenv A; env none", out: "A=1\nX=3\n4\n1\n", code: 127, err: "env: 'none': No such file or directory"},
	{name: "sleep", script: "sleep 0.01; sleep x", code: 1, err: "invalid time interval 'x'"},
	{name: "true false", script: "true && echo t; false || echo f; /bin/true && echo t; ! /bin/false; sync; sync -d . && sync -f .", out: "t\nf\nt\n"},
	{name: "xargs", script: "printf '1\n2\n3\n' | xargs -n 2 echo x; printf 'a b\\0c' | xargs -0 -n1 echo; echo f | xargs -I{} echo '<{}>'; printf '' | xargs -r echo no; echo \"a 'b c'\" | xargs -n1 echo; echo 1 | xargs false", out: "x 1 2\nx 3\na b\nc\n<f>\na\nb c\n", code: 123},
	{name: "names", script: "basename /a/b.c .c; basename /a/b/; dirname /a/b; dirname b; dirname /; realpath .; realpath -m /x/../y; basename -a /p/q /r/s", out: "b\nb\n/a\n.\n/\n/home/debian/w\n/y\nq\ns\n"},
	{name: "find", script: "mkdir -p d/e; touch d/a.txt d/e/b.txt d/c.md; find d -name '*.txt' | sort; find d -type d; find d -maxdepth 1 -type f ! -name '*.md'; find d -name c.md -exec echo got {} ';'; find d -type f -delete; find d -type f; find . -empty -type d; find none", out: "d/a.txt\nd/e/b.txt\nd\nd/e\nd/a.txt\ngot d/c.md\n./d/e\n", code: 1, err: "'none': No such file or directory"},
	{name: "grep", script: "printf 'one\ntwo\nthree.x\n' > f; grep t f; grep -c e f; grep -v o f; grep -n two f; grep -q none f || echo no; grep -F .x f; grep -E '^(one|two)$' f; grep -x two f; grep -o 'e.' f; grep -il ONE f; grep -qxF 'three.x' f && echo yes; grep 'o\\(ne\\)' f; grep -e one -e two f; grep x none", out: "two\nthree.x\n2\nthree.x\n2:two\nno\nthree.x\none\ntwo\ntwo\nee\nf\nyes\none\none\ntwo\n", code: 2, err: "grep: none: No such file or directory"},
	{name: "sed", script: "printf 'a=1\nb=2\nc=3\n' > f; sed -n 2p f; sed 's/=/: /' f; sed -n 's/^b=\\(.*\\)$/<\\1>/p' f; sed '/^a/d;$d' f; sed -i 's|2|two/2|' f; cat f; sed -E 's/([a-z])=(.)/\\2=\\1/' f; sed '1i top' f | head -1; sed '$a end' f | tail -1; sed -i.bak '/b/c new' f; cat f; sed 2q f.bak; sed 's/x' f",
		out: "b=2\na: 1\nb: 2\nc: 3\n<2>\nb=2\na=1\nb=two/2\nc=3\n1=a\nt=bwo/2\n3=c\ntop\nend\na=1\nnew\nc=3\na=1\nb=two/2\n", code: 1, err: "unterminated `s' command"},
	{name: "sed more", script: "printf '1\n2\n3\n4\n' | sed -n '2,3p'; printf '1\n2\n3\n' | sed -n '/2/,$p'; printf 'a\nb\n' | sed ':x;N;$!bx;s/\\n/,/g'; echo aaa | sed 's/a/b/2'; echo abc | sed 'y/abc/xyz/'; printf 'x\n' | sed -e 's/x/&&/' -e 's/xx/y/'; printf '# c\nk v\n' | sed '/^#/!s/v/w/'; echo /a/b | sed 's#/#-#g'; echo 'a.b' | sed 's/[.]/-/'; printf 'a' | sed s/a/b/",
		out: "2\n3\n2\n3\na,b\naba\nxyz\ny\n# c\nk w\n-a-b\na-b\nb"},
	{name: "awk", script: `printf 'a 1\nb 2\nc 3\n' > f; awk '{print $2}' f; awk -F: '{print $1}' /etc/passwd | head -1; awk '$2 > 1 {s += $2} END {print s, NR}' f; awk 'NR==2' f; awk '/^c/ {print "x" $1; exit}' f; awk -v n=7 'BEGIN {printf "%03d %s\n", n, toupper("q")}'; awk '{a[$1]=$2} END {for (k in a) print k "=" a[k]}' f; awk '{sub(/[0-9]/, "<&>"); print; if (NR == 1) next}' f; awk 'BEGIN {n = split("x,y,z", p, ","); for (i = n; i > 0; i--) printf "%s ", p[i]; print length("abc"), substr("hello", 2, 3), index("abc", "c")}'; awk '!seen[$0]++' f | wc -l; awk 'BEGIN { exit 4 }'`,
		out: "1\n2\n3\nroot\n5 3\nb 2\nxc\n007 Q\na=1\nb=2\nc=3\na <1>\nb <2>\nc <3>\nz y x 3 ell 3\n3\n", code: 4},
	{name: "diff", script: "printf '1\n2\n3\n' > a; printf '1\nx\n3\n' > b; diff a a && echo same; diff -u --label a --label b a b; diff a b; cmp a b; cmp -s a a && echo eq; diff -q a b; diff a none", out: "same\n--- a\n+++ b\n@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n2c2\n< 2\n---\n> x\na b differ: byte 3, line 2\neq\nFiles a and b differ\n", code: 2, err: "diff: none: No such file or directory"},
	{name: "tar", script: "mkdir -p s/d; echo 1 > s/d/f; ln -s f s/d/l; chmod 700 s/d; tar -czf a.tgz -C s d; tar tzf a.tgz | sort; mkdir o; tar -C o -xzf a.tgz; cat o/d/l; stat -c %a o/d; mkdir p; tar xf a.tgz -C p --strip-components=1; ls p; tar cf - s | tar -C p -xf -; ls p/s; tar xf none", out: "d/\nd/f\nd/l\n1\n700\nf\nl\nd\n", code: 2, err: "none: Cannot open: No such file or directory"},
	{name: "gzip", script: "seq 100 > f; sha256sum < f > s; gzip f; ls; zcat f.gz | tail -1; gunzip f.gz; sha256sum < f | cmp - s && echo same; echo hi | gzip -c | gzip -dc", out: "f.gz\ns\n100\nsame\nhi\n"},
	{name: "dd truncate", script: "dd if=/dev/zero of=f bs=1K count=4 status=none; stat -c %s f; truncate -s 10 f; stat -c %s f; printf abcdef | dd bs=1 skip=2 count=3 2>/dev/null", out: "4096\n10\ncde"},
	{name: "timeout", script: "timeout 5 echo in time; timeout 0.05 sleep 60; echo $?; timeout -s KILL 0.05 sleep 60; echo $?; timeout 1 none", out: "in time\n124\n137\n", code: 127, err: "failed to run command 'none'"},
	{name: "flock", script: "flock l echo held; flock -n l sh -c 'flock -n l true || echo busy'; flock -w 0.05 l flock -w 0.05 l echo no; echo $?; test -f l && echo file", out: "held\nbusy\n1\nfile\n"},
	{name: "kill", script: "sleep 60 & sleep 0.05; pgrep -x sleep >/dev/null && echo runs; pkill -x sleep; wait; kill -0 999999", out: "runs\n", code: 1, err: "No such process"},
	{name: "ps", script: "ps | grep -c 'ps$'; ps -ef | head -1 | cut -c1-3", out: "1\nUID\n"},
	{name: "command", script: "command -v cat; command -v cd; f() { :; }; command -v f; command -v none || echo no; type cat; which sed; command cat /dev/null && echo ran; command -v ./x; echo '#!/bin/sh' > x; chmod +x x; command -v ./x", out: "/usr/bin/cat\ncd\nf\nno\ncat is /usr/bin/cat\n/usr/bin/sed\nran\n./x\n"},
	{name: "scripts", script: "printf '#!/bin/sh\\necho \"$0 $1 $#\"\\nexit 7\\n' > s.sh; sh s.sh a b; echo $?; ./s.sh; chmod +x s.sh; ./s.sh q; echo $?; . ./lib.sh 2>/dev/null; echo 'X=5' > lib.sh; . ./lib.sh; echo $X; none", out: "s.sh a 2\n7\n./s.sh q 1\n7\n5\n", code: 127, err: "none: command not found"},
	{name: "trap", script: "trap 'echo bye' EXIT INT TERM; trap '' HUP; echo hi; exit 3", out: "hi\nbye\n", code: 3},
	{name: "shell", script: "set -eu; f() { local a=$1; echo \"${a#x}\"; }; f xy; for i in 1 2; do echo $i; done; case abc in a*) echo m;; esac; v=$(echo sub); echo $v ${u:-def} $((2+3)); cat <<EOF\nhere $v\nEOF\nwhile read -r l; do echo \"<$l>\"; done <<'X'\na b\nX\n[ -f none ] || echo or; false; echo never", out: "y\n1\n2\nm\nsub def 5\nhere sub\n<a b>\nor\n", code: 1},
	{name: "redirect", script: "echo out; echo err >&2; { echo a; echo b >&2; } > f 2>&1; cat f; echo x > /etc/forbidden; echo $?; cat < none", out: "out\na\nb\n1\n", code: 1, err: "/etc/forbidden: Permission denied"},
	{name: "syntax", script: "if then", code: 2, err: "Syntax error"},
	{name: "home", script: "cd; pwd; cd /tmp; pwd -P; cd /bin && pwd -P; echo ~root ~nobody-here", out: "/home/debian\n/tmp\n/usr/bin\n/root ~nobody-here\n"},
	{name: "sticky tmp", script: "sudo touch /tmp/roots; rm -f /tmp/roots; echo x > /tmp/mine && rm /tmp/mine", code: 0, err: "Operation not permitted"},
	{name: "subst", script: "diff <(echo a) <(echo b)", code: 0, err: "cannot create fifo"},
	{name: "devices", script: "echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c; echo y > /dev/full; cat /dev/null", out: "4\n8\n", err: ""},
	{name: "cross volume", script: "echo 1 > f; sudo mv f /run/f; cat /run/f; sudo rm /run/f", out: "1\n"},
}

func TestCoreutils(t *testing.T) { runCases(t, coreutilsCases) }

func runCases(t *testing.T, cases []scriptCase) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) { runCase(t, c, tc) })
	}
}

func runCase(t *testing.T, c *ssh.Client, tc scriptCase) {
	t.Helper()
	ok(t, c, "sudo rm -rf w; mkdir w")
	got := run(t, c, "cd w && { "+tc.script+"\n}", "")
	if tc.name == "syntax" {
		got = run(t, c, tc.script, "")
	}
	if got.out != tc.out || got.code != tc.code && !(tc.code == 0 && tc.err != "") || !strings.Contains(got.err, tc.err) || tc.err == "" && tc.code == 0 && got.err != "" && tc.name != "devices" && tc.name != "redirect" {
		t.Errorf("script %s\n got exit %d\n%s\n%s\nwant exit %d\n%s\n%s", tc.script, got.code, got.out, got.err, tc.code, tc.out, tc.err)
	}
}
