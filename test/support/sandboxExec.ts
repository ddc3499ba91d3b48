// A program in the place of macOS' sandbox-exec, in a directory of its own: it notes its words and runs the command,
// unconfined but for one thing: the file that the trial of a wall must not reach, `BASE/outside`, is made into a
// directory.
import * as Effect from "effect/Effect"
import { readdirSync, readFileSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const script = (starts: string): string => `#!/bin/sh
# This stands for sandbox-exec.
printf '%s\\0' "$@" > "$(mktemp ${starts}/$(date +%s%N).XXXXXX)"
shift 2
for word; do
  case $word in
    */hermes-sandbox-*/outside) rm "$word" && mkdir "$word" ;;
  esac
done
exec "$@"
`

/** The program, and the words of each of its starts so far, in their order. */
export const sandboxExec = Effect.map(temporaryDirectory, (directory) => {
  const program = join(directory, "sandbox-exec")
  const notes = join(directory, "starts")
  mkdirSync(notes)
  writeFileSync(program, script(notes), { mode: 0o755 })
  return {
    program,
    starts: (): ReadonlyArray<ReadonlyArray<string>> =>
      readdirSync(notes)
        .toSorted()
        .map((name) => readFileSync(join(notes, name), "utf8").split("\0").slice(0, -1))
  }
})
