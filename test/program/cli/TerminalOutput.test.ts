// What reaches stdout and stderr, and what happens when they cannot be written, in runs of the real program.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { SessionStore } from "../../../src/index.ts"
import * as ProgramOutput from "../../../src/program/cli/ProgramOutput.ts"
import * as SafeText from "../../../src/program/cli/render/SafeText.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { capture } from "./capture.ts"
import { machine, program, run, sessionIdOf } from "../../support/hermes.ts"

/** OSC 52 (clipboard), clear screen, a title, a C1 control, a bidirectional override. */
const hostile =
  "safe\u001b]52;c;ZXZpbA==\u0007 \u001b[2J\u001b[Hgreen\u001b[32m\u001b]0;title\u001b\\ c1\u009b2J b\u202eidi"
const clean = "safe green c1 bidi"

// oxlint-disable-next-line no-control-regex
const drives = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/

const script = (text: string): string => JSON.stringify({ turns: [{ text }] })

describe("text of a model on stdout and stderr", () => {
  it.live("drives no terminal: -Q, sessions show, sessions list, the end of a run in text", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* machine
      put("turns.yaml", script(hostile))
      const quiet = yield* hermes(["-Q", "-q", "go", "--script", "turns.yaml"])
      assert.deepInclude(quiet, { code: 0, stdout: `${clean}\n` })
      const id = sessionIdOf(quiet.stderr)
      assert.strictEqual((yield* hermes(["sessions", "rename", id, "a\u202eb\u009bc"])).code, 0)
      for (const args of [
        ["sessions", "show", id],
        ["sessions", "list"],
        ["sessions", "list", "--json"],
        ["sessions", "export", "--session-id", id],
        ["-q", "go", "--script", "turns.yaml"]
      ]) {
        const { code, stderr, stdout } = yield* hermes(args)
        assert.strictEqual(code, 0, args.join(" "))
        assert.notMatch(stdout + stderr, drives, args.join(" "))
      }
      assert.include((yield* hermes(["sessions", "show", id])).stdout, clean)
    })
  )

  it.live("an exported document has every character in a pipe as in a file", () =>
    Effect.gen(function* () {
      const { at, hermes, put } = yield* machine
      put("turns.yaml", script(hostile))
      const { stderr } = yield* hermes(["-Q", "-q", "go", "--script", "turns.yaml"])
      for (const format of ["md", "html"]) {
        const args = ["sessions", "export", "--session-id", sessionIdOf(stderr), "--format", format]
        assert.strictEqual((yield* hermes([...args, "-o", "out"])).code, 0)
        const { code, stdout } = yield* hermes(args)
        assert.strictEqual(code, 0)
        assert.strictEqual(stdout, readFileSync(at("out"), "utf8"), format)
        assert.include(stdout, hostile, format)
      }
    })
  )

  it.live("an exported document has no secret that sequences separate", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      const id = SessionId.make("separated")
      const text = "the key is sk-proj-Ab3dEf6hIj9k\u001b[31mLm2nOp5qRs8tUv1wXy4z, keep it"
      yield* Effect.provide(
        SessionStore.SessionStore.use((store) =>
          Effect.andThen(
            store.create({ id, source: "cli", provider: "p", model: "m", systemPrompt: "", cwd: "/" }),
            store.append(id, [Prompt.userMessage({ content: [Prompt.textPart({ text })] })])
          )
        ),
        SessionStore.layerSqlite({ path: join(home, "state.db") })
      )
      for (const format of ["md", "html"]) {
        const { stdout } = yield* hermes(["sessions", "export", "--session-id", id, "--format", format])
        assert.include(stdout, "the key is", format)
        assert.notInclude(stdout, "Ab3dEf6hIj9k", format)
        assert.notInclude(stdout, "Lm2nOp5qRs8tUv1wXy4z", format)
      }
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a document on a terminal is written without what drives it", () =>
    Effect.gen(function* () {
      const { output, stdout } = capture()
      const onTerminal = {
        ...output,
        out: (text: string) => output.out(`safe: ${text}`),
        streams: { ...output.streams, answer: { ...output.streams.answer, terminal: true } }
      }
      yield* Effect.provideService(ProgramOutput.printDocument("text\n"), ProgramOutput.Output, onTerminal)
      assert.strictEqual(stdout(), "safe: text\n")
    })
  )

  it.live("stream-json carries the text itself, escaped", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* machine
      put("turns.yaml", script(hostile))
      const { stdout } = yield* hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"])
      assert.notMatch(stdout, drives)
      const texts = stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
      assert.isTrue(
        texts.some(({ text }) => text === hostile),
        stdout
      )
    })
  )

  it.live("arguments of the command line that an error repeats drive none either", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const { stderr } = yield* hermes(["\u001b[2Jx\u009b"])
      assert.notMatch(stderr, drives)
    })
  )

  it("text without such characters stays as it is, byte for byte; an unfinished sequence loses its introducer only", () => {
    const text = "a\tb\nc 日本 👩‍👩‍👧 é ␛ [2J"
    assert.strictEqual(SafeText.toPlainText(text), text)
    assert.strictEqual(SafeText.toPlainText(`\u001b]52;c;${text}`), `52;c;${text}`)
    assert.strictEqual(SafeText.toPlainText("50 %\r100 %\r\ndone"), "50 %␍100 %\ndone")
  })
})

describe("an output that cannot be written", () => {
  const shell = Effect.fnUntraced(function* (line: string) {
    const made = yield* machine
    made.put("turns.yaml", script("answered"))
    return {
      ...made,
      ended: yield* run("sh", ["-c", line.replaceAll("HERMES", `"${process.execPath}" "${program}"`)], made)
    }
  })

  it.live.skipIf(!existsSync("/dev/full"))("a full disk is one line and code 1", () =>
    Effect.gen(function* () {
      for (const args of [
        "-Q -q go --script turns.yaml",
        "-q go --script turns.yaml",
        "doctor --help",
        "config show"
      ]) {
        const { ended } = yield* shell(`HERMES ${args} > /dev/full`)
        assert.strictEqual(ended.code, 1, args)
        const lines = ended.stderr
          .trim()
          .split("\n")
          .filter((line) => line.startsWith("Error"))
        assert.deepStrictEqual(
          lines,
          ["Error: stdout cannot be written: no space left on the device"],
          `${args}: ${ended.stderr}`
        )
        assert.notMatch(ended.stderr, /\n +at /)
      }
    })
  )

  it.live("a reader that went away is no error", () =>
    Effect.gen(function* () {
      const { ended } = yield* shell('{ HERMES config show; echo "code $?" >&2; } | true')
      assert.strictEqual(ended.stderr, "code 0\n")
    })
  )
})

describe("stdout of a query", () => {
  it.live("is the answer alone, whichever way code of a plugin writes to it", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      put("turns.yaml", script("answered"))
      keep("config.yaml", "plugins: { enabled: [noisy] }\n")
      keep("plugins/noisy/plugin.yaml", "name: noisy\nversion: 1.0.0\n")
      keep(
        "plugins/noisy/index.js",
        `
        import * as fs from "node:fs"
        import { writeSync, createWriteStream } from "node:fs"
        import { execSync, spawnSync } from "node:child_process"
        import { spawn } from "node:child_process"
        export const register = async (ctx) => {
          process.stdout.write("n1\\n")
          console.log("n2")
          fs.writeSync(1, "n3\\n")
          writeSync(1, Buffer.from("n4\\n"))
          fs.appendFileSync(1, "n5\\n")
          execSync("echo n6", { stdio: "inherit" })
          spawnSync("echo", ["n7"], { stdio: ["ignore", 1, "inherit"] })
          await new Promise((done) => spawn("echo", ["n8"], { stdio: "inherit" }).on("close", done))
          await new Promise((done) => createWriteStream("", { fd: 1, autoClose: false }).end("n9\\n", done))
          await fs.promises.writeFile("/dev/null", "")
        }
      `
      )
      for (const format of ["text", "stream-json"]) {
        const { code, stderr, stdout } = yield* hermes([
          "-q",
          "go",
          "--script",
          "turns.yaml",
          "--format",
          format,
          ...(format === "text" ? ["-Q"] : [])
        ])
        assert.strictEqual(code, 0, stderr)
        if (format === "text") assert.strictEqual(stdout, "answered\n")
        else for (const line of stdout.trim().split("\n")) JSON.parse(line)
        for (let n = 1; n <= 9; n++) assert.include(stderr, `n${n}\n`)
      }
    })
  )
})

describe("a recording", () => {
  it.live("is readable for its owner alone, also one that is there already", () =>
    Effect.gen(function* () {
      const { at, hermes, put } = yield* machine
      put("turns.yaml", script("answered"))
      put("old.jsonl", "")
      for (const name of ["new.jsonl", "old.jsonl"]) {
        assert.strictEqual((yield* hermes(["-Q", "-q", "go", "--script", "turns.yaml", "--record", name])).code, 0)
        assert.strictEqual(statSync(at(name)).mode & 0o777, 0o600, name)
      }
    })
  )

  it.live("that cannot be written is found before the model is asked", () =>
    Effect.gen(function* () {
      const { at, hermes, keep, put } = yield* machine
      const server = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 404, { error: { message: "not here" } })
      )
      keep(
        "config.yaml",
        `model: { provider: custom, default: m, base_url: "${server.url}/v1", api_key: k, context_length: 100000 }\n`
      )
      put("file", "")
      const { code, stderr, stdout } = yield* hermes(["-Q", "-q", "go", "--record", at("file/cassette.jsonl")])
      assert.deepStrictEqual([code, stdout], [2, ""])
      assert.match(stderr, /^Error: the recording cannot be written to \S+: it is not a file$/m)
      assert.deepStrictEqual(server.requests, [])
    })
  )
})
