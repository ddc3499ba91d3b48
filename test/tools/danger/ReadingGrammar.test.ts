// Which commands are known to only read: exact flags, nothing else.
import { assert, describe, it } from "@effect/vitest"
import * as Danger from "../../../src/tools/danger/Danger.ts"
import * as Reading from "../../../src/tools/danger/Reading.ts"
import * as ScriptInterpreter from "../../../src/tools/danger/ScriptInterpreter.ts"
import { filePrograms } from "../../../src/tools/danger/reading/FilePrograms.ts"
import { subcommands } from "../../../src/tools/danger/reading/GitFlags.ts"
import { machinePrograms, verbs } from "../../../src/tools/danger/reading/MachinePrograms.ts"
import { everyday, holes } from "./readingHoles.ts"

const onlyReads = (command: string): boolean => Reading.isOnlyReading(command, ScriptInterpreter.read(command).commands)

describe("Reading", () => {
  it("asks about commands that write, run or reach something with a flag, an operand or what surrounds them", () => {
    assert.isAtLeast(holes.length, 300)
    assert.deepStrictEqual(holes.filter(onlyReads), [])
    assert.deepStrictEqual(
      holes.filter((command) => Danger.judge(command).onlyReads),
      []
    )
  })

  it("does not ask about the reading commands of every day", () => {
    assert.isAtLeast(everyday.length, 150)
    assert.deepStrictEqual(
      everyday.filter((command) => !onlyReads(command)),
      []
    )
    assert.deepStrictEqual(
      everyday.filter((command) => Danger.selectAskedFindings(Danger.judge(command), "ask").length > 0),
      []
    )
  })

  it("asks about a beginning of each long flag, which programs take for the whole", () => {
    const tables = [
      ...[...filePrograms, ...machinePrograms].map(([name, grammar]) => [name, grammar] as const),
      ...Array.from(subcommands, ([verb, grammar]) => [`git ${verb}`, grammar] as const),
      ...Array.from(verbs).flatMap(([name, rows]) =>
        Array.from(rows, ([verb, grammar]) => [`${name} ${verb}`, grammar] as const)
      )
    ]
    const taken = tables.flatMap(([name, { flags }]) =>
      [...flags.keys()]
        .filter((flag) => flag.startsWith("--"))
        .flatMap((flag) =>
          Array.from({ length: flag.length - 3 }, (_, index) => flag.slice(0, index + 3))
            .filter(
              (beginning) =>
                !flags.has(beginning) && (onlyReads(`${name} ${beginning}`) || onlyReads(`${name} ${beginning}=a`))
            )
            .map((beginning) => `${name} ${beginning}`)
        )
    )
    assert.deepStrictEqual(
      taken.filter((line) => !line.endsWith(" --version")),
      []
    )
  })
})
