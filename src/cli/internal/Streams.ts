/**
 * stdout and stderr of this process. A reader that went away is no error; what it would have read is dropped.
 */
import * as Effect from "effect/Effect"
import { fstatSync } from "node:fs"
import type { Service } from "../Output.ts"
import * as Paint from "../render/Paint.ts"

/** Broken pipe, and a terminal that was closed. */
const isGone = (error: unknown): boolean =>
  error instanceof Error && "code" in error && (error.code === "EPIPE" || error.code === "EIO")

const swallow = (stream: NodeJS.WriteStream): void => {
  stream.on("error", (error) => {
    if (!isGone(error)) throw error
  })
}

/** See the module. */
export interface Streams {
  readonly output: Service
  /** A line to stderr, now. */
  readonly say: (text: string) => void
  /** Told when everything that was written is out. */
  readonly flushed: () => Promise<void>
}

const sink = (stream: NodeJS.WriteStream, write: (text: string) => void) => ({
  write,
  terminal: stream.isTTY === true,
  paint: Paint.make(Paint.capabilities(stream.isTTY === true, process.env))
})

const drained = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => {
    if (stream.destroyed || stream.writableLength === 0) resolve()
    else stream.write("", () => resolve())
  })

const piped = (): Service["terminal"]["piped"] => {
  try {
    const stat = fstatSync(0)
    if (stat.isFile()) return "file"
    if (stat.isFIFO()) return "pipe"
    return stat.isSocket() ? "socket" : undefined
  } catch {
    // A closed descriptor holds no input.
    return undefined
  }
}

/** Takes hold of the streams. */
export const make = (): Streams => {
  const { stderr, stdout } = process
  swallow(stdout)
  swallow(stderr)
  const write = stdout.write.bind(stdout)
  const put = (text: string): void => {
    if (!stdout.destroyed) write(text)
  }
  const say = (text: string): void => {
    if (!stderr.destroyed) stderr.write(text)
  }
  const redirect = Effect.acquireRelease(
    Effect.sync(() => {
      const before = stdout.write
      stdout.write = stderr.write.bind(stderr)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        stdout.write = before
      })
  )
  return {
    say,
    flushed: async () => {
      await Promise.all([drained(stdout), drained(stderr)])
    },
    output: {
      out: (text) => Effect.sync(() => put(text)),
      err: (text) => Effect.sync(() => say(text)),
      streams: {
        answer: sink(stdout, put),
        aside: sink(stderr, say),
        size: () => {
          const { columns = 80, rows = 24 } = stderr.isTTY ? stderr : stdout
          return { columns, rows }
        }
      },
      terminal: { input: process.stdin.isTTY === true, piped: piped() },
      protect: Effect.asVoid(redirect)
    }
  }
}
