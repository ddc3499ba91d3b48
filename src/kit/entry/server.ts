/** Servers that use the runtime: the agent over HTTP, rollouts for training, and the Agent Client Protocol. */
export * as AcpAgent from "../../serve/server/acp/AcpAgent.ts"
export * as AcpSession from "../../serve/server/acp/AcpSession.ts"
export * as AgentServer from "../../serve/server/agent/AgentServer.ts"
export * as HermesServer from "../../serve/server/HermesServer.ts"
export * as ToolServer from "../../serve/server/ToolServer.ts"
