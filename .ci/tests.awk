# Reads the events of `go test -json`. Prints the output of failed tests and the reasons of skipped ones, writes
# "<passed> <failed> <skipped>" to the file named by the variable counts, and appends "<elapsed seconds> <package>" lines to the file
# named by packages, and why each failed test has failed to the file named by failures.

function field(name,    s) {
  if (!match($0, "\"" name "\":\"([^\"\\\\]|\\\\.)*\"")) return ""
  s = substr($0, RSTART, RLENGTH)
  sub("^\"" name "\":\"", "", s)
  sub("\"$", "", s)
  return s
}

function plain(s) {
  gsub(/\\n/, "\n", s); gsub(/\\t/, "\t", s); gsub(/\\"/, "\"", s)
  gsub(/\\u003c/, "<", s); gsub(/\\u003e/, ">", s); gsub(/\\u0026/, "\\&", s); gsub(/\\\\/, "\\", s)
  return s
}

/^\{"/ {
  action = field("Action"); pkg = field("Package"); test = field("Test"); id = pkg SUBSEP test
  if (action == "output" || action == "build-output") {
    if (pkg == "") pkg = field("ImportPath")
    # Bounded from the front: the last output of a failing test matters most.
    line = plain(field("Output"))
    text[pkg, test] = substr(text[pkg, test] line, length(text[pkg, test]) > 20000 ? 8000 : 1)
    noteReason(pkg SUBSEP test, line)
  } else if (action == "pass" || action == "fail" || action == "skip") {
    outcome[id] = action
    if (match($0, /"Elapsed":[0-9.]+/)) took[id] = substr($0, RSTART + 10, RLENGTH - 10)
    if (test == "") {
      if (id in took) print took[id], pkg >> packages
      if (action == "fail") failedPackage[pkg] = 1
    } else {
      order[++n] = id
      parent = test
      while (sub(/\/[^\/]*$/, "", parent)) inner[pkg, parent] = 1
    }
  }
}

END {
  passed = failed = skipped = 0
  for (i = 1; i <= n; i++) {
    id = order[i]; split(id, part, SUBSEP)
    if (outcome[id] == "fail") { explained[part[1]] = 1; printf "%s", text[id]; showReasons(id, part[1] " " part[2]) }
    if (outcome[id] == "skip") { printf "%s", text[id] }
    # A failed test that has subtests counts only if none of them failed.
    if (id in inner && outcome[id] != "fail") continue
    if (id in inner && failedInside(part[1], part[2])) continue
    if (outcome[id] == "pass") passed++
    else if (outcome[id] == "fail") failed++
    else skipped++
  }
  for (p in failedPackage) if (!(p in explained)) { failed++; print "FAIL " p; printf "%s", text[p, ""]; showReasons(p SUBSEP "", p); showBuild(p) }
  printf "%d %d %d\n", passed, failed, skipped > counts
}

function failedInside(p, t,    i, part) {
  for (i = 1; i <= n; i++) {
    split(order[i], part, SUBSEP)
    if (part[1] == p && index(part[2], t "/") == 1 && outcome[order[i]] == "fail") return 1
  }
  return 0
}

# A package that does not build reports errors under the name of its build, "path [path.test]"; one that dies leaves tests without
# an outcome.
function showBuild(p,    k, part) {
  for (k in text) {
    split(k, part, SUBSEP)
    if (index(part[1], p " ") != 1 && (part[1] != p || part[2] == "" || k in outcome)) continue
    printf "%s", text[k]
    if (reasons[k] > 0) showReasons(k, part[1] " " part[2])
  }
}

# noteReason takes a line that a test has printed. Its reasons are what it logs itself (file.go:N: ...), panics and data races, each with a few
# lines that belong to it, and not the logs of processes: a test that ends with many of them would hide why it has failed. Of many reasons
# the first and the last ones are kept.
function noteReason(id, line) {
  if (line ~ /^(    )?[^ :]+\.go:[0-9]+(:[0-9]+)?: /) {
    follow[id] = line ~ /: end of the log of / ? 0 : 8
    indented[id] = 1
  } else if (line ~ /^(panic: |fatal error: |WARNING: DATA RACE)/) {
    follow[id] = 16
    indented[id] = 0
  } else if (line ~ /^ *(---|===) / || indented[id] && line !~ /^        /) {
    follow[id] = 0
  }
  if (follow[id] <= 0) return
  follow[id]--
  sub(/\n$/, "", line)
  if (length(line) > 400) line = substr(line, 1, 400) "..."
  reason[id, reasons[id]++] = line
  if (reasons[id] > 2 * keep) delete reason[id, reasons[id] - keep - 1]
}

function showReasons(id, name,    i) {
  if (reasons[id] == 0 && (id in inner)) return # a subtest says why
  printf "FAIL %s%s\n", name, (id in took) ? " (" took[id] " s)" : "" >> failures
  for (i = 0; i < reasons[id]; i++) {
    if (reasons[id] > 2 * keep && i == keep) {
      i = reasons[id] - keep
      printf "    ... %d lines are left out\n", i - keep >> failures
    }
    print reason[id, i] >> failures
  }
}

BEGIN { keep = 12 }
