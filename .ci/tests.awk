# Reads the events of `go test -json`. Prints the output of failed tests and the reasons of skipped ones, writes
# "<passed> <failed> <skipped>" to the file named by the variable counts, and appends "<elapsed seconds> <package>" lines to the file
# named by packages.

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
    text[pkg, test] = substr(text[pkg, test] plain(field("Output")), length(text[pkg, test]) > 20000 ? 8000 : 1)
  } else if (action == "pass" || action == "fail" || action == "skip") {
    outcome[id] = action
    if (test == "") {
      if (match($0, /"Elapsed":[0-9.]+/)) print substr($0, RSTART + 10, RLENGTH - 10), pkg >> packages
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
    if (outcome[id] == "fail") { explained[part[1]] = 1; printf "%s", text[id] }
    if (outcome[id] == "skip") { printf "%s", text[id] }
    # A failed test that has subtests counts only if none of them failed.
    if (id in inner && outcome[id] != "fail") continue
    if (id in inner && failedInside(part[1], part[2])) continue
    if (outcome[id] == "pass") passed++
    else if (outcome[id] == "fail") failed++
    else skipped++
  }
  for (p in failedPackage) if (!(p in explained)) { failed++; print "FAIL " p; printf "%s", text[p, ""]; showBuild(p) }
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
    if (index(part[1], p " ") == 1 || part[1] == p && part[2] != "" && !(k in outcome)) printf "%s", text[k]
  }
}
