// `hermes acp` as a process behind an editor by the official client library of ACP.
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { dirname } from "node:path"
import { Readable, Writable } from "node:stream"
import * as acpEditor from "./acpEditor.ts"
import { codeCache } from "./builtProgram.ts"
import { program, standInWhereUnset, withoutSandbox } from "./hermes.ts"

/** The program behind an editor; `env` has variables of its own. */
export const editor = (
  own: { readonly home: string; readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
  unsaved?: Map<string, string>
) =>
  Effect.gen(function* () {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [program, "acp"], {
          cwd: own.home,
          env: {
            PATH: process.env["PATH"],
            NODE_COMPILE_CACHE: codeCache,
            HOME: dirname(own.home),
            HERMES_HOME: own.home,
            ...withoutSandbox,
            ...standInWhereUnset([], own),
            ...own.env
          },
          stdio: ["pipe", "pipe", "pipe"]
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    let said = ""
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text))
    const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)))
    // Node's web streams are those of the library, by another name.
    const client = acpEditor.make(
      Writable.toWeb(child.stdin),
      Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>,
      unsaved
    )
    return { ...client, child, ended, said: () => said }
  })
