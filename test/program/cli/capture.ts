// Commands in this process: what they write, and the runtime that they get.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execute } from "../../../src/program/cli/CommandRunner.ts"
import type { Service } from "../../../src/program/cli/ProgramOutput.ts"
import { Output } from "../../../src/program/cli/ProgramOutput.ts"
import { Program } from "../../../src/program/cli/Program.ts"
import * as Paint from "../../../src/program/cli/render/Paint.ts"

export interface Captured {
  readonly output: Service
  readonly stdout: () => string
  readonly stderr: () => string
}

/** An output that keeps what is written. */
export const capture = (): Captured => {
  let stdout = ""
  let stderr = ""
  const sink = (write: (text: string) => void) => ({ write, terminal: false, paint: Paint.plain })
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    output: {
      out: (text) => Effect.sync(() => void (stdout += text)),
      err: (text) => Effect.sync(() => void (stderr += text)),
      streams: {
        answer: sink((text) => void (stdout += text)),
        aside: sink((text) => void (stderr += text)),
        size: () => ({ columns: 80, rows: 24 })
      },
      terminal: { input: false },
      protect: Effect.void,
      masked: Effect.void,
      printOn: () => Effect.void,
      onExit: () => Effect.void
    }
  }
}

/** Runs a command line that needs no runtime. */
export const cli = (...argv: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { output, stderr, stdout } = capture()
    const code = yield* execute(argv).pipe(
      Effect.provide(
        Layer.mergeAll(
          NodeServices.layer,
          Layer.succeed(Output, output),
          Layer.succeed(Program, { layer: () => Layer.effectContext(Effect.die("no runtime is wanted here")) })
        )
      )
    )
    return { code, stdout: stdout(), stderr: stderr() }
  })
