/** Decisions about dangerous calls: approvers, the judge, permission modes and rule lists. */
export * as ApprovalJudge from "../../tools/approval/ApprovalJudge.ts"
export * as Approvals from "../../tools/Approvals.ts"
export * as Approver from "../../tools/approval/Approver.ts"
export * as CallQuestions from "../../tools/CallQuestions.ts"
export * as InteractiveMode from "../../tools/approval/InteractiveMode.ts"
export * as PermissionMode from "../../base/config/PermissionMode.ts"
export * as PermissionRule from "../../tools/approval/PermissionRule.ts"
export * as Permissions from "../../tools/approval/Permissions.ts"
