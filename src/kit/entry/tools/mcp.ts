/** Tools of MCP servers. */
export * as McpClient from "../../../tools/mcp/SdkClient.ts"
export * as McpConnection from "../../../tools/mcp/Connection.ts"
export * as McpServers from "../../../tools/mcp/McpServers.ts"
