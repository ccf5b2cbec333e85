// Judges what the official conformance suite has found: each check that does not pass must be in a list, with a reason,
// and each entry of the list must be of use.
//
// usage: judge.mjs LIST RESULTS LOG
//
// LIST is in the suite's format for expected failures, one entry a line: `- SCENARIO:CHECK  # reason`, or
// `- SCENARIO  # reason` for a scenario that checks nothing. RESULTS is the directory of `--output-dir`, LOG what the
// suite printed. The suite judges by itself as well, but its release knows whole scenarios alone, and neither version
// counts warnings, checks that were skipped, entries whose check has gone, or scenarios of extensions.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const [list, results, log] = process.argv.slice(2);
const complaints = [];

// From the least to the most severe; a check that comes several times counts as the worst of them.
const STATUSES = ["INFO", "SUCCESS", "SKIPPED", "WARNING", "FAILURE"];

function readList() {
  const reasons = new Map();
  readFileSync(list, "utf8").split("\n").forEach((line, at) => {
    if (/^\s*(#.*)?$/.test(line) || /^server:\s*(\[\])?$/.test(line)) return;
    const entry = /^\s*- ([^\s:]+(?::\S+)?)\s+# (\S.*)$/.exec(line);
    if (!entry) complaints.push(`${list}:${at + 1} is no "- SCENARIO:CHECK  # reason"`);
    else if (reasons.has(entry[1])) complaints.push(`${list}:${at + 1} says ${entry[1]} again`);
    else reasons.set(entry[1], entry[2]);
  });
  return reasons;
}

// The scenarios the suite says it ran, each with its checks. One without a result has crashed.
function readResults() {
  const printed = readFileSync(log, "utf8");
  const ran = [...printed.matchAll(/^=== Running scenario: (\S+) ===$/gm)].map((match) => match[1]);
  if (ran.length === 0 || !printed.includes("=== SUMMARY ===")) complaints.push("the suite did not run to its end");
  const found = new Map();
  for (const directory of existsSync(results) ? readdirSync(results) : []) {
    const file = join(results, directory, "checks.json");
    const scenario = /^server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z$/.exec(directory)?.[1];
    if (!scenario) complaints.push(`${directory} is not named like a result`);
    else if (existsSync(file)) found.set(scenario, JSON.parse(readFileSync(file, "utf8")));
  }
  for (const scenario of ran) {
    if (!found.has(scenario)) complaints.push(`${scenario} has no result`);
  }
  return found;
}

const reasons = readList();
const used = new Set();
const counts = { SUCCESS: 0, listed: 0 };

function judge(entry, what) {
  if (reasons.has(entry)) {
    used.add(entry);
    counts.listed += 1;
  } else {
    complaints.push(`${entry}: ${what}`);
  }
}

const scenarios = readResults();
for (const [scenario, checks] of scenarios) {
  const worst = new Map();
  for (const check of checks) {
    const before = worst.get(check.id);
    if (!before || STATUSES.indexOf(check.status) > STATUSES.indexOf(before.status)) worst.set(check.id, check);
    if (!STATUSES.includes(check.status)) complaints.push(`${scenario}:${check.id} has the unknown status ${check.status}`);
    if (check.status === "SUCCESS") counts.SUCCESS += 1;
  }
  const open = [...worst.values()].filter((check) => STATUSES.indexOf(check.status) > STATUSES.indexOf("SUCCESS"));
  for (const check of open) judge(`${scenario}:${check.id}`, `${check.status}: ${check.errorMessage ?? check.description}`);
  if (open.length === 0 && ![...worst.values()].some((check) => check.status === "SUCCESS")) {
    judge(scenario, "it has checked nothing");
  }
}
for (const entry of reasons.keys()) {
  if (!used.has(entry)) complaints.push(`${entry} is listed and is not so (any more); take it out of ${list}`);
}

console.error(`${scenarios.size} scenarios: ${counts.SUCCESS} checks passed, ${counts.listed} do not apply, ${complaints.length} complaints`);
for (const complaint of complaints) console.error(`  ${complaint}`);
process.exitCode = complaints.length === 0 ? 0 : 1;
