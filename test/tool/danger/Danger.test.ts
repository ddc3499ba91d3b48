// What is dangerous, and what is not: two corpora, and garbage that must neither throw nor take long.
import { assert, describe, it } from "@effect/vitest"
import * as Danger from "../../../src/tool/danger/Danger.ts"
import { hostile } from "./hostile.ts"
import { ordinary } from "./ordinary.ts"

describe("Danger", () => {
  it("finds every hostile command, for its reason", () => {
    assert.isAtLeast(hostile.length, 150)
    const missed = hostile.flatMap(([command, family, gravity]) => {
      const { findings } = Danger.judge(command)
      return findings.some((finding) => finding.family === family && finding.gravity === gravity)
        ? []
        : [`${JSON.stringify(command)}: ${findings.map(({ family, gravity }) => `${family}/${gravity}`).join(", ")}`]
    })
    assert.deepStrictEqual(missed, [])
  })

  it("raises fewer than two false alarms in a hundred ordinary commands", () => {
    assert.isAtLeast(ordinary.length, 150)
    const alarms = ordinary.flatMap((command) => {
      const { findings } = Danger.judge(command)
      return findings.length === 0 ? [] : [`${command}: ${findings.map(({ key }) => key).join(", ")}`]
    })
    assert.isBelow(alarms.length / ordinary.length, 0.02, alarms.join("\n"))
  })

  it("keeps the floor for what nobody may lift", () => {
    const floored = ordinary.filter((command) => Danger.judge(command).floor !== undefined)
    assert.deepStrictEqual(floored, [])
  })
})
