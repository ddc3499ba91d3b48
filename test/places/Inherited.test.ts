// Descriptors that this program inherited, and limits of it: neither opens a way past the sandbox.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ChildProcess from "effect/process/ChildProcess"
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { closeFor, isPassedOn } from "../../src/base/platform/InheritedDescriptors.ts"
import { makeLastingDirectory } from "../support/temporaryDirectory.ts"

const stands =
  spawnSync("bwrap", [
    "--unshare-user",
    "--unshare-net",
    "--unshare-pid",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "true"
  ]).status === 0
const bash = spawnSync("bash", ["-c", "[ -d /proc/self/fdinfo ]"]).status === 0

const main = join(import.meta.dirname, "../../src/main.ts")

/** A home directory with a project, and the program started there by bash behind some words. */
const user = Effect.acquireRelease(
  Effect.sync(() => {
    const root = makeLastingDirectory("inherited-")
    const cwd = join(root, "project")
    mkdirSync(join(root, ".hermes"))
    mkdirSync(cwd)
    mkdirSync(join(root, "tmp"))
    const run = (before: string, command: string, env: Readonly<Record<string, string>> = {}) => {
      const call = { name: "terminal", arguments: { command } }
      writeFileSync(
        join(cwd, "turns.yaml"),
        JSON.stringify({ turns: [{ text: "a", tool_calls: [call] }, { text: "done" }] })
      )
      const program = [process.execPath, main, "-Q", "-q", "go", "--script", "turns.yaml"]
      return spawnSync("bash", ["-c", `${before} exec "$@"`, "bash", ...program], {
        cwd,
        encoding: "utf8",
        env: {
          PATH: process.env["PATH"] ?? "",
          HOME: root,
          HERMES_HOME: join(root, ".hermes"),
          TMPDIR: join(root, "tmp"),
          TERM: "dumb",
          ...env
        }
      })
    }
    return { root, cwd, run }
  }),
  ({ root }) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
)

describe("descriptors that the program inherited", () => {
  const script = 'for fd in /proc/self/fd/*; do echo "$fd"; done > fds; echo LEAK > /proc/self/fd/200; true'

  for (const backend of ["sandbox", "local"]) {
    it.live.skipIf(!stands || !bash)(`are not passed on to commands (${backend})`, () =>
      Effect.gen(function* () {
        const { cwd, root, run } = yield* user
        const outside = join(root, "outside")
        const ended = run(`exec 200>>"${outside}";`, script, {
          HERMES_TERMINAL__BACKEND: backend,
          HERMES_APPROVALS__MODE: "off"
        })
        assert.strictEqual(ended.stdout, "done\n", ended.stderr)
        assert.isTrue(existsSync(join(cwd, "fds")), ended.stderr)
        assert.notInclude(readFileSync(join(cwd, "fds"), "utf8"), "/200")
        assert.strictEqual(readFileSync(outside, "utf8"), "")
      }).pipe(Effect.scoped)
    )
  }

  it("leave the start of a program that does not exist to the operating system", () => {
    const here = ChildProcess.make("true", [])
    assert.notStrictEqual(closeFor(here, [200]), here)
    const inDirectory = ChildProcess.make("./true", [], { cwd: "/usr/bin" })
    assert.notStrictEqual(closeFor(inDirectory, [200]), inDirectory)
    for (const gone of [
      ChildProcess.make("no-such-program", []),
      ChildProcess.make("./true", []),
      ChildProcess.make("true", [], { env: { PATH: "/nowhere" } })
    ]) {
      assert.strictEqual(closeFor(gone, [200]), gone)
    }
  })

  it("are told by their flags", () => {
    assert.isTrue(isPassedOn("pos:\t0\nflags:\t0102001\nmnt_id:\t23\n"))
    assert.isFalse(isPassedOn("pos:\t0\nflags:\t02100000\nmnt_id:\t23\n"))
    assert.isTrue(isPassedOn(""))
  })
})

describe("a program without free descriptors", () => {
  it.live.skipIf(!stands || !bash)("runs nothing outside of the sandbox", () =>
    Effect.gen(function* () {
      const { root, run } = yield* user
      const ended = run("ulimit -n 32;", `touch ${join(root, "outside")}`, { HERMES_APPROVALS__MODE: "off" })
      assert.isFalse(existsSync(join(root, "outside")), ended.stderr)
      assert.include(ended.stderr, "terminal.backend: the sandbox could not be tried")
      assert.notInclude(ended.stderr, "commands run without a sandbox")
    }).pipe(Effect.scoped)
  )
})
