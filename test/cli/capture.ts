// Commands in this process: what they write, and the runtime that they get.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execute } from "../../src/cli/Execute.ts"
import type { Service } from "../../src/cli/Output.ts"
import { Output } from "../../src/cli/Output.ts"
import { Program } from "../../src/cli/Program.ts"

export interface Captured {
  readonly output: Service
  readonly stdout: () => string
  readonly stderr: () => string
}

/** An output that keeps what is written. */
export const capture = (terminal: Partial<Service["terminal"]> = {}): Captured => {
  let stdout = ""
  let stderr = ""
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    output: {
      out: (text) => Effect.sync(() => void (stdout += text)),
      err: (text) => Effect.sync(() => void (stderr += text)),
      terminal: { input: false, colours: false, ...terminal },
      protect: Effect.void
    }
  }
}

/** Runs a command line that needs no runtime. */
export const cli = (...argv: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const { output, stderr, stdout } = capture()
    const code = yield* execute(argv).pipe(Effect.provide(Layer.mergeAll(
      NodeServices.layer,
      Layer.succeed(Output, output),
      Layer.succeed(Program, { layer: () => Layer.effectContext(Effect.die("no runtime is wanted here")) })
    )))
    return { code, stdout: stdout(), stderr: stderr() }
  })
