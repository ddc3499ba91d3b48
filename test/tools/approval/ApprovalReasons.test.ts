// Whether the arguments that reach a handler are those that were approved.
import { assert, describe, it } from "@effect/vitest"
import * as Arguments from "../../../src/tools/approval/ApprovalReasons.ts"

describe("the arguments of an approved call", () => {
  it("are the same when they say the same, whatever object they are", () => {
    const snapshot = Arguments.takeSnapshot({ path: "a", lines: [1, 2] })
    assert.isTrue(snapshot.isSame({ path: "a", lines: [1, 2] }))
    assert.isFalse(snapshot.isSame({ path: "a", lines: [1, 3] }))
  })

  it("are changed when somebody changed the very object", () => {
    const args: Record<string, unknown> = { path: "a" }
    const snapshot = Arguments.takeSnapshot(args)
    args["path"] = "b"
    assert.isFalse(snapshot.isSame(args))
  })

  it("count as changed when they can not be compared", () => {
    const round: Record<string, unknown> = {}
    round["self"] = round
    assert.isFalse(Arguments.takeSnapshot(round).isSame(round))
    assert.isFalse(Arguments.takeSnapshot({ n: 1n }).isSame({ n: 1n }))
  })

  it("are not even written where nobody can change them", () => {
    const args = { toJSON: () => assert.fail("was written") }
    assert.isTrue(Arguments.fixed.isSame(args))
  })
})
