// The bundled tasks (`tasks/`): small repositories with failing tests, as SWE-bench instances over repositories that
// are made here, and a scripted model that solves them by commands.
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { sentinel } from "../../../src/research/swe/SweRun.ts"

const folder = fileURLToPath(new URL("tasks", import.meta.url))

/** An instance of the bundled set. */
export interface Instance {
  readonly instance_id: string
  readonly problem_statement: string
  readonly test_command: string
  readonly FAIL_TO_PASS: string
  readonly PASS_TO_PASS: string
}

/** All bundled tasks. */
export const instances: ReadonlyArray<Instance> = readFileSync(join(folder, "tasks.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line))

const filesBelow = (root: string): ReadonlyArray<string> =>
  readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(join(root, name)).isFile())
    .toSorted()

/** Files that solve a task, with their contents. */
const solution = (id: string): ReadonlyArray<{ readonly name: string; readonly content: Buffer }> => {
  const root = join(folder, id, "solution")
  return filesBelow(root).map((name) => ({ name, content: readFileSync(join(root, name)) }))
}

const octal = (bytes: Buffer): string => Array.from(bytes, (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("")

const write = ({ content, name }: { readonly name: string; readonly content: Buffer }): string => {
  const text = content.toString("utf8")
  const made = `mkdir -p "${dirname(name)}" && `
  return Buffer.from(text).equals(content) && !text.includes("\0")
    ? `${made}cat > "${name}" <<'END'\n${text}END`
    : `${made}printf '${octal(content)}' > "${name}"`
}

/** Commands of a model that solves a task, in order. */
export const commandsFor = ({ instance_id: id, test_command: test }: Instance): ReadonlyArray<string> => [
  "cat src/*.js test/*.js",
  ...solution(id).map(write),
  test,
  `echo ${sentinel}`
]

/** Answers of a model that solves tasks, as a scenario: those of a task wait for its problem. */
export const scenario = (
  tasks: ReadonlyArray<Instance>,
  commands: (task: Instance) => ReadonlyArray<string> = commandsFor
): string =>
  JSON.stringify({
    turns: tasks.flatMap((task) =>
      commands(task).map((command) => ({
        match: task.problem_statement,
        tool_calls: [{ name: "terminal", arguments: { command } }]
      }))
    )
  })

const git = (cwd: string, ...args: ReadonlyArray<string>): string =>
  execFileSync(
    "git",
    [
      "-c",
      "user.name=a",
      "-c",
      "user.email=a@b",
      "-c",
      "init.defaultBranch=main",
      "-c",
      "commit.gpgSign=false",
      ...args
    ],
    { cwd, encoding: "utf8" }
  ).trim()

/**
 * Makes the repositories of tasks below a directory, and returns their instances: with the name of the repository and
 * the base commit.
 */
export const makeRepositories = (root: string, tasks: ReadonlyArray<Instance> = instances) =>
  tasks.map((task) => {
    const repository = join(root, `bundled__${task.instance_id}`)
    mkdirSync(repository, { recursive: true })
    cpSync(join(folder, task.instance_id, "repository"), repository, { recursive: true })
    git(repository, "init", "-q")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "Start")
    const base = git(repository, "rev-parse", "HEAD")
    // What comes later is not seen by the agent.
    cpSync(join(folder, task.instance_id, "solution"), repository, { recursive: true })
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "Solution")
    return { ...task, repo: `bundled/${task.instance_id}`, base_commit: base }
  })

/** Writes instances as a file of SWE-bench. */
export const writeInstances = (path: string, rows: ReadonlyArray<object>): string => {
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
  return path
}
