var rt=globalThis,ot=rt.ShadowRoot&&(rt.ShadyCSS===void 0||rt.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,jt=Symbol(),It=new WeakMap,nt=class{constructor(t,e,s){if(this._$cssResult$=!0,s!==jt)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=t,this.t=e}get styleSheet(){let t=this.o,e=this.t;if(ot&&t===void 0){let s=e!==void 0&&e.length===1;s&&(t=It.get(e)),t===void 0&&((this.o=t=new CSSStyleSheet).replaceSync(this.cssText),s&&It.set(e,t))}return t}toString(){return this.cssText}},Bt=i=>new nt(typeof i=="string"?i:i+"",void 0,jt);var Ft=(i,t)=>{if(ot)i.adoptedStyleSheets=t.map(e=>e instanceof CSSStyleSheet?e:e.styleSheet);else for(let e of t){let s=document.createElement("style"),r=rt.litNonce;r!==void 0&&s.setAttribute("nonce",r),s.textContent=e.cssText,i.appendChild(s)}},vt=ot?i=>i:i=>i instanceof CSSStyleSheet?(t=>{let e="";for(let s of t.cssRules)e+=s.cssText;return Bt(e)})(i):i;var{is:Oe,defineProperty:Ue,getOwnPropertyDescriptor:Le,getOwnPropertyNames:Ne,getOwnPropertySymbols:qe,getPrototypeOf:He}=Object,at=globalThis,Wt=at.trustedTypes,De=Wt?Wt.emptyScript:"",Ie=at.reactiveElementPolyfillSupport,V=(i,t)=>i,_t={toAttribute(i,t){switch(t){case Boolean:i=i?De:null;break;case Object:case Array:i=i==null?i:JSON.stringify(i)}return i},fromAttribute(i,t){let e=i;switch(t){case Boolean:e=i!==null;break;case Number:e=i===null?null:Number(i);break;case Object:case Array:try{e=JSON.parse(i)}catch{e=null}}return e}},Vt=(i,t)=>!Oe(i,t),Jt={attribute:!0,type:String,converter:_t,reflect:!1,useDefault:!1,hasChanged:Vt};Symbol.metadata??=Symbol("metadata"),at.litPropertyMetadata??=new WeakMap;var _=class extends HTMLElement{static addInitializer(t){this._$Ei(),(this.l??=[]).push(t)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(t,e=Jt){if(e.state&&(e.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(t)&&((e=Object.create(e)).wrapped=!0),this.elementProperties.set(t,e),!e.noAccessor){let s=Symbol(),r=this.getPropertyDescriptor(t,s,e);r!==void 0&&Ue(this.prototype,t,r)}}static getPropertyDescriptor(t,e,s){let{get:r,set:n}=Le(this.prototype,t)??{get(){return this[e]},set(o){this[e]=o}};return{get:r,set(o){let a=r?.call(this);n?.call(this,o),this.requestUpdate(t,a,s)},configurable:!0,enumerable:!0}}static getPropertyOptions(t){return this.elementProperties.get(t)??Jt}static _$Ei(){if(this.hasOwnProperty(V("elementProperties")))return;let t=He(this);t.finalize(),t.l!==void 0&&(this.l=[...t.l]),this.elementProperties=new Map(t.elementProperties)}static finalize(){if(this.hasOwnProperty(V("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(V("properties"))){let e=this.properties,s=[...Ne(e),...qe(e)];for(let r of s)this.createProperty(r,e[r])}let t=this[Symbol.metadata];if(t!==null){let e=litPropertyMetadata.get(t);if(e!==void 0)for(let[s,r]of e)this.elementProperties.set(s,r)}this._$Eh=new Map;for(let[e,s]of this.elementProperties){let r=this._$Eu(e,s);r!==void 0&&this._$Eh.set(r,e)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(t){let e=[];if(Array.isArray(t)){let s=new Set(t.flat(1/0).reverse());for(let r of s)e.unshift(vt(r))}else t!==void 0&&e.push(vt(t));return e}static _$Eu(t,e){let s=e.attribute;return s===!1?void 0:typeof s=="string"?s:typeof t=="string"?t.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(t=>this.enableUpdating=t),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(t=>t(this))}addController(t){(this._$EO??=new Set).add(t),this.renderRoot!==void 0&&this.isConnected&&t.hostConnected?.()}removeController(t){this._$EO?.delete(t)}_$E_(){let t=new Map,e=this.constructor.elementProperties;for(let s of e.keys())this.hasOwnProperty(s)&&(t.set(s,this[s]),delete this[s]);t.size>0&&(this._$Ep=t)}createRenderRoot(){let t=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return Ft(t,this.constructor.elementStyles),t}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(t=>t.hostConnected?.())}enableUpdating(t){}disconnectedCallback(){this._$EO?.forEach(t=>t.hostDisconnected?.())}attributeChangedCallback(t,e,s){this._$AK(t,s)}_$ET(t,e){let s=this.constructor.elementProperties.get(t),r=this.constructor._$Eu(t,s);if(r!==void 0&&s.reflect===!0){let n=(s.converter?.toAttribute!==void 0?s.converter:_t).toAttribute(e,s.type);this._$Em=t,n==null?this.removeAttribute(r):this.setAttribute(r,n),this._$Em=null}}_$AK(t,e){let s=this.constructor,r=s._$Eh.get(t);if(r!==void 0&&this._$Em!==r){let n=s.getPropertyOptions(r),o=typeof n.converter=="function"?{fromAttribute:n.converter}:n.converter?.fromAttribute!==void 0?n.converter:_t;this._$Em=r;let a=o.fromAttribute(e,n.type);this[r]=a??this._$Ej?.get(r)??a,this._$Em=null}}requestUpdate(t,e,s,r=!1,n){if(t!==void 0){let o=this.constructor;if(r===!1&&(n=this[t]),s??=o.getPropertyOptions(t),!((s.hasChanged??Vt)(n,e)||s.useDefault&&s.reflect&&n===this._$Ej?.get(t)&&!this.hasAttribute(o._$Eu(t,s))))return;this.C(t,e,s)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(t,e,{useDefault:s,reflect:r,wrapped:n},o){s&&!(this._$Ej??=new Map).has(t)&&(this._$Ej.set(t,o??e??this[t]),n!==!0||o!==void 0)||(this._$AL.has(t)||(this.hasUpdated||s||(e=void 0),this._$AL.set(t,e)),r===!0&&this._$Em!==t&&(this._$Eq??=new Set).add(t))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(e){Promise.reject(e)}let t=this.scheduleUpdate();return t!=null&&await t,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[r,n]of this._$Ep)this[r]=n;this._$Ep=void 0}let s=this.constructor.elementProperties;if(s.size>0)for(let[r,n]of s){let{wrapped:o}=n,a=this[r];o!==!0||this._$AL.has(r)||a===void 0||this.C(r,void 0,n,a)}}let t=!1,e=this._$AL;try{t=this.shouldUpdate(e),t?(this.willUpdate(e),this._$EO?.forEach(s=>s.hostUpdate?.()),this.update(e)):this._$EM()}catch(s){throw t=!1,this._$EM(),s}t&&this._$AE(e)}willUpdate(t){}_$AE(t){this._$EO?.forEach(e=>e.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(t)),this.updated(t)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(t){return!0}update(t){this._$Eq&&=this._$Eq.forEach(e=>this._$ET(e,this[e])),this._$EM()}updated(t){}firstUpdated(t){}};_.elementStyles=[],_.shadowRootOptions={mode:"open"},_[V("elementProperties")]=new Map,_[V("finalized")]=new Map,Ie?.({ReactiveElement:_}),(at.reactiveElementVersions??=[]).push("2.1.2");var Et=globalThis,Kt=i=>i,lt=Et.trustedTypes,zt=lt?lt.createPolicy("lit-html",{createHTML:i=>i}):void 0,At="$lit$",S=`lit$${Math.random().toFixed(9).slice(2)}$`,xt="?"+S,je=`<${xt}>`,L=document,z=()=>L.createComment(""),G=i=>i===null||typeof i!="object"&&typeof i!="function",kt=Array.isArray,te=i=>kt(i)||typeof i?.[Symbol.iterator]=="function",St=`[ 	
\f\r]`,K=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,Gt=/-->/g,Yt=/>/g,O=RegExp(`>|${St}(?:([^\\s"'>=/]+)(${St}*=${St}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),Xt=/'/g,Qt=/"/g,ee=/^(?:script|style|textarea|title)$/i,Rt=i=>(t,...e)=>({_$litType$:i,strings:t,values:e}),l=Rt(1),se=Rt(2),As=Rt(3),w=Symbol.for("lit-noChange"),d=Symbol.for("lit-nothing"),Zt=new WeakMap,U=L.createTreeWalker(L,129);function ie(i,t){if(!kt(i)||!i.hasOwnProperty("raw"))throw Error("invalid template strings array");return zt!==void 0?zt.createHTML(t):t}var re=(i,t)=>{let e=i.length-1,s=[],r,n=t===2?"<svg>":t===3?"<math>":"",o=K;for(let a=0;a<e;a++){let c=i[a],p,u,h=-1,m=0;for(;m<c.length&&(o.lastIndex=m,u=o.exec(c),u!==null);)m=o.lastIndex,o===K?u[1]==="!--"?o=Gt:u[1]!==void 0?o=Yt:u[2]!==void 0?(ee.test(u[2])&&(r=RegExp("</"+u[2],"g")),o=O):u[3]!==void 0&&(o=O):o===O?u[0]===">"?(o=r??K,h=-1):u[1]===void 0?h=-2:(h=o.lastIndex-u[2].length,p=u[1],o=u[3]===void 0?O:u[3]==='"'?Qt:Xt):o===Qt||o===Xt?o=O:o===Gt||o===Yt?o=K:(o=O,r=void 0);let f=o===O&&i[a+1].startsWith("/>")?" ":"";n+=o===K?c+je:h>=0?(s.push(p),c.slice(0,h)+At+c.slice(h)+S+f):c+S+(h===-2?a:f)}return[ie(i,n+(i[e]||"<?>")+(t===2?"</svg>":t===3?"</math>":"")),s]},Y=class i{constructor({strings:t,_$litType$:e},s){let r;this.parts=[];let n=0,o=0,a=t.length-1,c=this.parts,[p,u]=re(t,e);if(this.el=i.createElement(p,s),U.currentNode=this.el.content,e===2||e===3){let h=this.el.content.firstChild;h.replaceWith(...h.childNodes)}for(;(r=U.nextNode())!==null&&c.length<a;){if(r.nodeType===1){if(r.hasAttributes())for(let h of r.getAttributeNames())if(h.endsWith(At)){let m=u[o++],f=r.getAttribute(h).split(S),$=/([.?@])?(.*)/.exec(m);c.push({type:1,index:n,name:$[2],strings:f,ctor:$[1]==="."?ht:$[1]==="?"?dt:$[1]==="@"?pt:q}),r.removeAttribute(h)}else h.startsWith(S)&&(c.push({type:6,index:n}),r.removeAttribute(h));if(ee.test(r.tagName)){let h=r.textContent.split(S),m=h.length-1;if(m>0){r.textContent=lt?lt.emptyScript:"";for(let f=0;f<m;f++)r.append(h[f],z()),U.nextNode(),c.push({type:2,index:++n});r.append(h[m],z())}}}else if(r.nodeType===8)if(r.data===xt)c.push({type:2,index:n});else{let h=-1;for(;(h=r.data.indexOf(S,h+1))!==-1;)c.push({type:7,index:n}),h+=S.length-1}n++}}static createElement(t,e){let s=L.createElement("template");return s.innerHTML=t,s}};function N(i,t,e=i,s){if(t===w)return t;let r=s!==void 0?e._$Co?.[s]:e._$Cl,n=G(t)?void 0:t._$litDirective$;return r?.constructor!==n&&(r?._$AO?.(!1),n===void 0?r=void 0:(r=new n(i),r._$AT(i,e,s)),s!==void 0?(e._$Co??=[])[s]=r:e._$Cl=r),r!==void 0&&(t=N(i,r._$AS(i,t.values),r,s)),t}var ct=class{constructor(t,e){this._$AV=[],this._$AN=void 0,this._$AD=t,this._$AM=e}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t){let{el:{content:e},parts:s}=this._$AD,r=(t?.creationScope??L).importNode(e,!0);U.currentNode=r;let n=U.nextNode(),o=0,a=0,c=s[0];for(;c!==void 0;){if(o===c.index){let p;c.type===2?p=new B(n,n.nextSibling,this,t):c.type===1?p=new c.ctor(n,c.name,c.strings,this,t):c.type===6&&(p=new ut(n,this,t)),this._$AV.push(p),c=s[++a]}o!==c?.index&&(n=U.nextNode(),o++)}return U.currentNode=L,r}p(t){let e=0;for(let s of this._$AV)s!==void 0&&(s.strings!==void 0?(s._$AI(t,s,e),e+=s.strings.length-2):s._$AI(t[e])),e++}},B=class i{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t,e,s,r){this.type=2,this._$AH=d,this._$AN=void 0,this._$AA=t,this._$AB=e,this._$AM=s,this.options=r,this._$Cv=r?.isConnected??!0}get parentNode(){let t=this._$AA.parentNode,e=this._$AM;return e!==void 0&&t?.nodeType===11&&(t=e.parentNode),t}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(t,e=this){t=N(this,t,e),G(t)?t===d||t==null||t===""?(this._$AH!==d&&this._$AR(),this._$AH=d):t!==this._$AH&&t!==w&&this._(t):t._$litType$!==void 0?this.$(t):t.nodeType!==void 0?this.T(t):te(t)?this.k(t):this._(t)}O(t){return this._$AA.parentNode.insertBefore(t,this._$AB)}T(t){this._$AH!==t&&(this._$AR(),this._$AH=this.O(t))}_(t){this._$AH!==d&&G(this._$AH)?this._$AA.nextSibling.data=t:this.T(L.createTextNode(t)),this._$AH=t}$(t){let{values:e,_$litType$:s}=t,r=typeof s=="number"?this._$AC(t):(s.el===void 0&&(s.el=Y.createElement(ie(s.h,s.h[0]),this.options)),s);if(this._$AH?._$AD===r)this._$AH.p(e);else{let n=new ct(r,this),o=n.u(this.options);n.p(e),this.T(o),this._$AH=n}}_$AC(t){let e=Zt.get(t.strings);return e===void 0&&Zt.set(t.strings,e=new Y(t)),e}k(t){kt(this._$AH)||(this._$AH=[],this._$AR());let e=this._$AH,s,r=0;for(let n of t)r===e.length?e.push(s=new i(this.O(z()),this.O(z()),this,this.options)):s=e[r],s._$AI(n),r++;r<e.length&&(this._$AR(s&&s._$AB.nextSibling,r),e.length=r)}_$AR(t=this._$AA.nextSibling,e){for(this._$AP?.(!1,!0,e);t!==this._$AB;){let s=Kt(t).nextSibling;Kt(t).remove(),t=s}}setConnected(t){this._$AM===void 0&&(this._$Cv=t,this._$AP?.(t))}},q=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(t,e,s,r,n){this.type=1,this._$AH=d,this._$AN=void 0,this.element=t,this.name=e,this._$AM=r,this.options=n,s.length>2||s[0]!==""||s[1]!==""?(this._$AH=Array(s.length-1).fill(new String),this.strings=s):this._$AH=d}_$AI(t,e=this,s,r){let n=this.strings,o=!1;if(n===void 0)t=N(this,t,e,0),o=!G(t)||t!==this._$AH&&t!==w,o&&(this._$AH=t);else{let a=t,c,p;for(t=n[0],c=0;c<n.length-1;c++)p=N(this,a[s+c],e,c),p===w&&(p=this._$AH[c]),o||=!G(p)||p!==this._$AH[c],p===d?t=d:t!==d&&(t+=(p??"")+n[c+1]),this._$AH[c]=p}o&&!r&&this.j(t)}j(t){t===d?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t??"")}},ht=class extends q{constructor(){super(...arguments),this.type=3}j(t){this.element[this.name]=t===d?void 0:t}},dt=class extends q{constructor(){super(...arguments),this.type=4}j(t){this.element.toggleAttribute(this.name,!!t&&t!==d)}},pt=class extends q{constructor(t,e,s,r,n){super(t,e,s,r,n),this.type=5}_$AI(t,e=this){if((t=N(this,t,e,0)??d)===w)return;let s=this._$AH,r=t===d&&s!==d||t.capture!==s.capture||t.once!==s.once||t.passive!==s.passive,n=t!==d&&(s===d||r);r&&this.element.removeEventListener(this.name,this,s),n&&this.element.addEventListener(this.name,this,t),this._$AH=t}handleEvent(t){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,t):this._$AH.handleEvent(t)}},ut=class{constructor(t,e,s){this.element=t,this.type=6,this._$AN=void 0,this._$AM=e,this.options=s}get _$AU(){return this._$AM._$AU}_$AI(t){N(this,t)}},ne={M:At,P:S,A:xt,C:1,L:re,R:ct,D:te,V:N,I:B,H:q,N:dt,U:pt,B:ht,F:ut},Be=Et.litHtmlPolyfillSupport;Be?.(Y,B),(Et.litHtmlVersions??=[]).push("3.3.3");var oe=(i,t,e)=>{let s=e?.renderBefore??t,r=s._$litPart$;if(r===void 0){let n=e?.renderBefore??null;s._$litPart$=r=new B(t.insertBefore(z(),n),n,void 0,e??{})}return r._$AI(i),r};var Tt=globalThis,b=class extends _{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let t=super.createRenderRoot();return this.renderOptions.renderBefore??=t.firstChild,t}update(t){let e=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(t),this._$Do=oe(e,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return w}};b._$litElement$=!0,b.finalized=!0,Tt.litElementHydrateSupport?.({LitElement:b});var Fe=Tt.litElementPolyfillSupport;Fe?.({LitElement:b});(Tt.litElementVersions??=[]).push("4.2.2");function ae(i){return Object.entries(i.paths).filter(t=>t[1].get!==void 0).map(([t,{get:e}])=>We(i,t,e))}function We(i,t,e){let s=(e.parameters??[]).map(a=>Pt(i,a)),r=s.find(a=>a.name==="_format"),n=e.responses[200]?.content?.["application/x-ndjson"]?.["x-itemSchema"],o=n?Pt(i,n).properties:void 0;return{path:t,summary:e.summary??"",params:s.filter(a=>!a.name.startsWith("_")),controls:new Set(s.map(a=>a.name).filter(a=>a.startsWith("_"))),formats:(r?.schema.enum??[]).map(String),columns:Object.entries(o??{}).map(([a,c])=>({name:a,schema:Pt(i,c)})),needsToken:(e.security??[]).some(a=>Object.keys(a).length>0)}}function Pt(i,t){let e=t.$ref;if(!e)return t;let s=i;for(let r of e.slice(2).split("/"))s=s[r];return s}function X(i){if(i.type==="array")return`list of ${i.items?X(i.items):"anything"}`;let e=(i.anyOf?.map(X)??[i.type??[]].flat()).filter(s=>s!=="null"&&!s.startsWith("one of"));return i.format&&e.length<=1?i.format:e.length?[...new Set(e)].join(" or "):i.enum?`one of ${i.enum.length}`:"any"}var Ct="rowstream.token",A=new URL("./",location.href.split("#")[0]),le=new URL("../",A),E=()=>sessionStorage.getItem(Ct)??"";function ce(i){i?sessionStorage.setItem(Ct,i):sessionStorage.removeItem(Ct)}function x(i,t={}){let e=new Headers(t.headers);return E()&&e.set("Authorization",`Bearer ${E()}`),fetch(i,{...t,headers:e,cache:"no-store",credentials:"omit"})}async function F(i){try{return await i.json()}catch{return{status:i.status,title:i.statusText||`status ${i.status}`}}}async function mt(i,t={}){let e=await x(new URL(i,A),t);if(!e.ok)throw await F(e);return await e.json()}var k={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},W=i=>(...t)=>({_$litDirective$:i,values:t}),P=class{constructor(t){}get _$AU(){return this._$AM._$AU}_$AT(t,e,s){this._$Ct=t,this._$AM=e,this._$Ci=s}_$AS(t,e){return this.update(t,e)}update(t,e){return this.render(...e)}};var{I:Je}=ne,he=i=>i;var pe=i=>i.strings===void 0,de=()=>document.createComment(""),J=(i,t,e)=>{let s=i._$AA.parentNode,r=t===void 0?i._$AB:t._$AA;if(e===void 0){let n=s.insertBefore(de(),r),o=s.insertBefore(de(),r);e=new Je(n,o,i,i.options)}else{let n=e._$AB.nextSibling,o=e._$AM,a=o!==i;if(a){let c;e._$AQ?.(i),e._$AM=i,e._$AP!==void 0&&(c=i._$AU)!==o._$AU&&e._$AP(c)}if(n!==r||a){let c=e._$AA;for(;c!==n;){let p=he(c).nextSibling;he(s).insertBefore(c,r),c=p}}}return e},C=(i,t,e=i)=>(i._$AI(t,e),i),Ve={},ft=(i,t=Ve)=>i._$AH=t,ue=i=>i._$AH,gt=i=>{i._$AR(),i._$AA.remove()};var Q=W(class extends P{constructor(i){if(super(i),i.type!==k.PROPERTY&&i.type!==k.ATTRIBUTE&&i.type!==k.BOOLEAN_ATTRIBUTE)throw Error("The `live` directive is not allowed on child or event bindings");if(!pe(i))throw Error("`live` bindings can only contain a single expression")}render(i){return i}update(i,[t]){if(t===w||t===d)return t;let e=i.element,s=i.name;if(i.type===k.PROPERTY){if(t===e[s])return w}else if(i.type===k.BOOLEAN_ATTRIBUTE){if(!!t===e.hasAttribute(s))return w}else if(i.type===k.ATTRIBUTE&&e.getAttribute(s)===t+"")return w;return ft(i),t}});var me=(i,t,e)=>{let s=new Map;for(let r=t;r<=e;r++)s.set(i[r],r);return s},fe=W(class extends P{constructor(i){if(super(i),i.type!==k.CHILD)throw Error("repeat() can only be used in text expressions")}dt(i,t,e){let s;e===void 0?e=t:t!==void 0&&(s=t);let r=[],n=[],o=0;for(let a of i)r[o]=s?s(a,o):o,n[o]=e(a,o),o++;return{values:n,keys:r}}render(i,t,e){return this.dt(i,t,e).values}update(i,[t,e,s]){let r=ue(i),{values:n,keys:o}=this.dt(t,e,s);if(!Array.isArray(r))return this.ut=o,n;let a=this.ut??=[],c=[],p,u,h=0,m=r.length-1,f=0,$=n.length-1;for(;h<=m&&f<=$;)if(r[h]===null)h++;else if(r[m]===null)m--;else if(a[h]===o[f])c[f]=C(r[h],n[f]),h++,f++;else if(a[m]===o[$])c[$]=C(r[m],n[$]),m--,$--;else if(a[h]===o[$])c[$]=C(r[h],n[$]),J(i,c[$+1],r[h]),h++,$--;else if(a[m]===o[f])c[f]=C(r[m],n[f]),J(i,r[h],r[m]),m--,f++;else if(p===void 0&&(p=me(o,f,$),u=me(a,h,m)),p.has(a[h]))if(p.has(a[m])){let v=u.get(o[f]),yt=v!==void 0?r[v]:null;if(yt===null){let Dt=J(i,r[h]);C(Dt,n[f]),c[f]=Dt}else c[f]=C(yt,n[f]),J(i,r[h],yt),r[v]=null;f++}else gt(r[m]),m--;else gt(r[h]),h++;for(;f<=$;){let v=J(i,c[$+1]);C(v,n[f]),c[f++]=v}for(;h<=m;){let v=r[h++];v!==null&&gt(v)}return this.ut=o,ft(i,c),w}});var Ke=new Intl.NumberFormat("en-US",{maximumFractionDigits:0}),ge=["B","KB","MB","GB","TB"],g=i=>Ke.format(i);function R(i){let t=0;for(;i>=1e3&&t<ge.length-1;)i/=1e3,t+=1;return`${i<10&&t>0?i.toFixed(1):i.toFixed(0)} ${ge[t]}`}function H(i){if(i<1)return"< 1 ms";if(i<1e3)return`${i.toFixed(0)} ms`;if(i<6e4)return`${(i/1e3).toFixed(1)} s`;let t=Math.floor(i/1e3);return t<3600?`${Math.floor(t/60)} min ${t%60} s`:`${Math.floor(t/3600)} h ${Math.floor(t%3600/60)} min`}var $t=class{constructor(){this.total=0;this.columns=new Map;this.#t=[];this.#s=0;this.#i=!1;this.#n=[];this.#e=0;this.#r=0}#t;#s;#i;#n;#e;#r;push(t){if(this.total+=1,this.total<=200&&this.#a(t),!this.#i){this.#t.push(t),this.#s+=t.length,this.#i=this.#t.length>=1e4||this.#s>=8388608;return}let e=this.#n.at(-1);(!e||e.lines.length>=500||e.text>8388608/16)&&(e={lines:[],text:0},this.#n.push(e)),e.lines.push(t),e.text+=t.length,this.#e+=1,this.#r+=t.length,(this.#e>=10500||this.#r>8388608)&&this.#o()}#o(){if(this.#n.length<2)return;let t=this.#n.shift();this.#e-=t.lines.length,this.#r-=t.text}#a(t){for(let[e,s]of tt(t)){let r=Math.max(this.columns.get(e)??e.length,Math.min(s.length,48));this.columns.set(e,r)}}get#l(){return this.total-this.#t.length-this.#e}get length(){return this.#t.length+(this.#l>0?1:0)+this.#e}get kept(){return this.#t.length+this.#e}at(t){if(t<this.#t.length)return{row:t+1,line:this.#t[t]};let e=t-this.#t.length,s=this.#l;if(s>0){if(e===0)return{from:this.#t.length+1,to:this.#t.length+s};e-=1}let r=this.#t.length+s+e+1;for(let n of this.#n){if(e<n.lines.length)return{row:r,line:n.lines[e]};e-=n.lines.length}}cutTo(t){for(;this.total>t;){this.total-=1;let e=this.#n.at(-1);if(!e){this.#s-=this.#t.pop()?.length??0,this.#i=!1;continue}let s=e.lines.pop()?.length??0;e.text-=s,this.#r-=s,this.#e-=1,e.lines.length===0&&this.#n.pop()}}};function tt(i){let t=Z(i,0);if(i[t]!=="{")return[["value",i.trim()]];let e=[];for(t=Z(i,t+1);i[t]==='"';){let s=$e(i,t),r=JSON.parse(i.slice(t,s)),n=Z(i,Z(i,s)+1),o=ze(i,n);e.push([r,i.slice(n,o).trimEnd()]),t=Z(i,o+1)}return e}function Z(i,t){for(;i[t]===" "||i[t]==="	";)t+=1;return t}function $e(i,t){for(t+=1;t<i.length&&i[t]!=='"';t+=1)i[t]==="\\"&&(t+=1);return t+1}function ze(i,t){let e=0;for(;t<i.length;){let s=i[t];if(s==='"'){t=$e(i,t);continue}if(e===0&&(s===","||s==="}"))return t;(s==="{"||s==="[")&&(e+=1),(s==="}"||s==="]")&&(e-=1),t+=1}return t}function we(i){let t=i[0];return t==='"'?{kind:"text",text:JSON.parse(i)}:t==="{"||t==="["?{kind:"json",text:i}:t==="n"?{kind:"null",text:"null"}:{kind:t==="t"||t==="f"?"boolean":"number",text:i}}var ye=["ndjson","sse","json-seq"],be=1e5,Ge=4e3,Ye=30,wt=class{constructor(t,e){this.asked=t;this.changed=e;this.state="waiting";this.why="";this.status=0;this.bytes=0;this.rows=new $t;this.text="";this.#t="";this.started=performance.now();this.stream="";this.timing=[];this.limit=0;this.#s=new AbortController;this.#i="";this.#n=0;this.#e="";this.#o=!1}#t;#s;#i;#n;#e;#r;#o;get isRows(){return this.asked.format==="ndjson"}get isRunning(){return this.state==="waiting"||this.state==="running"}get elapsed(){return(this.ended??performance.now())-this.started}cancel(){this.#o=!0,this.#s.abort()}async start(){await this.#a(this.asked.url)}async resume(){if(!this.mark)return;this.rows.cutTo(this.mark.rows);let t=new URL(this.asked.url);t.searchParams.set("_after",this.mark.next),this.#n=this.rows.total,this.#e="",this.#r=void 0,this.#o=!1,this.#s=new AbortController,this.why="",this.problem=this.report=this.ended=void 0,this.state="waiting",this.changed(),await this.#a(t)}async#a(t){let e=!1,s=async()=>{e||(e=!0,await this.#p().finally(()=>e=!1))},r=setInterval(()=>{s()},1e3);try{await this.#c(t)}catch(n){this.#l(n)}finally{clearInterval(r)}this.ended=performance.now(),this.changed(),await this.#p(this.state==="cancelled"?5:1),this.state==="unproved"&&this.#g(),this.changed()}#l(t){this.#o?this.state="cancelled":this.problem?this.state="failed":this.state==="waiting"?(this.state="failed",this.problem={title:"The server cannot be reached",detail:String(t)}):(this.state="truncated",this.why="the connection ended before the answer did")}async#c(t){let e={headers:this.asked.headers,signal:this.#s.signal},s=await x(t,e);if(this.status=s.status,!s.ok){this.problem=await F(s),this.state="failed";return}this.state="running",this.stream=s.headers.get("Rowstream-Stream")??"",this.#i=s.headers.get("Rowstream-Tag")??"",this.timing=Xe(s.headers.get("Server-Timing")),this.changed(),await this.#h(s),this.#f(s)}async#h(t){let e=t.body?.getReader();if(!e)return;let s=new TextDecoder,r=performance.now();for(;;){let{done:n,value:o}=await e.read();if(n)break;this.bytes+=o.byteLength,this.asked.format!=="arrow"&&this.#u(s.decode(o,{stream:!0})),this.limit>0&&await this.#$(o.byteLength),performance.now()-r>Ye&&(this.changed(),await new Promise(a=>setTimeout(a)),r=performance.now())}}#u(t){if(!this.isRows){this.text.length<be&&(this.text+=t.slice(0,be-this.text.length)),this.#t=(this.#t+t).slice(-Ge),this.changed();return}let e=(this.#e+t).split(`
`);this.#e=e.pop()??"";for(let s of e)s&&this.#d(s);this.changed()}#d(t){if(this.#i&&t.startsWith(`{"$rowstream":"${this.#i}",`)){this.#m(JSON.parse(t));return}this.firstRow??=performance.now()-this.started,this.rows.push(t)}#m({end:t,mark:e,error:s}){let r=t?.next??e?.next;r&&(this.mark={next:r,rows:this.rows.total}),t&&(this.#r=t),s&&(this.problem=s)}#f(t){let e=`{"$rowstream":"${this.#i}","end":`;if(this.problem)this.state="failed";else if(this.#r||this.#i&&this.#t.includes(e)){let s=this.rows.total-this.#n,r=!this.#r||this.#r.rows===s;this.state=r?"complete":"truncated",r||(this.why=`${s} rows came, and the server sent ${this.#r?.rows}`)}else if(this.#i)this.state="truncated",this.why="it ended without the record of its end";else{let s=t.headers.has("Content-Length")||t.status===204;this.state=s?"complete":"unproved"}}#g(){this.report&&(this.report.state!=="complete"?(this.state="truncated",this.why=`the server says: ${this.report.state}`,this.problem=this.report.error):this.report.bytes===this.bytes&&(this.state="complete"))}async#p(t=0){for(let e=Math.max(t,1);this.stream&&e>0;e-=1){try{let s=await x(new URL(`streams/${this.stream}`,A));if(!s.ok)return;this.report=await s.json()}catch{return}if(this.changed(),t===0||this.report.state!=="running")return;await new Promise(s=>setTimeout(s,200))}}async#$(t){this.changed();for(let e=performance.now();this.limit>0&&!this.#s.signal.aborted;){let s=t/this.limit*1e3-(performance.now()-e);if(s<=0)return;await new Promise(r=>setTimeout(r,Math.min(s,200)))}}};function Xe(i){return(i??"").split(",").flatMap(t=>{let e=/^\s*([\w-]+);dur=([\d.]+)/.exec(t);return e?[[e[1],Number(e[2])]]:[]})}function _e(i,t,e,s){let r=e==="ndjson"&&i.searchParams.has("_end"),n=s?{Authorization:"Bearer $TOKEN",...t}:t;return[{name:"curl",text:Qe(i,n,e)},{name:"JavaScript",text:r?ts(i,n):Ze(i,n)},{name:"Python",text:r?ss(i,n):es(i,n)}]}var ve=i=>`'${i.replaceAll("'","'\\''")}'`;function Qe(i,t,e){let s=Object.entries(t).map(([n,o])=>o.includes("$TOKEN")?`  -H "${n}: ${o}"`:`  -H ${ve(`${n}: ${o}`)}`),r=e==="arrow"?["  -o rows.arrows"]:[];return["curl -fsS --compressed",...s,...r,`  ${ve(i.href)}`].join(` \\
`)}function Se(i){return Object.keys(i).length===0?"":`, { headers: { ${Object.entries(i).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: \`${s.replace("$TOKEN","${token}")}\``:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")} } }`}function Ze(i,t){return`const response = await fetch(${JSON.stringify(i.href)}${Se(t)});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws where the answer is cut.
const text = await response.text();`}function ts(i,t){return`const response = await fetch(${JSON.stringify(i.href)}${Se(t)});
if (!response.ok) throw new Error((await response.json()).detail);
const record = \`{"$rowstream":"\${response.headers.get("Rowstream-Tag")}",\`;
let rest = "", end;
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    if (line.startsWith(record)) end = JSON.parse(line).end ?? end;
    else console.log(JSON.parse(line)); // a row
  }
}
if (!end) throw new Error("it is not whole");`}function Ee(i){return Object.keys(i).length===0?"":`, headers={${Object.entries(i).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: f"${s.replace("$TOKEN","{token}")}"`:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")}}`}function es(i,t){return`import requests

response = requests.get(${JSON.stringify(i.href)}${Ee(t)})
response.raise_for_status()
body = response.content  # it raises where the answer is cut`}function ss(i,t){return`import json, requests

end = None
with requests.get(${JSON.stringify(i.href)}${Ee(t)}, stream=True) as response:
    response.raise_for_status()
    record = '{"$rowstream":"%s",' % response.headers["Rowstream-Tag"]
    for line in response.iter_lines():
        text = line.decode()
        if text.startswith(record):
            end = json.loads(text).get("end", end)
        elif text:
            print(json.loads(text))  # a row
if end is None:
    raise EOFError("it is not whole")`}var Mt=class extends P{render(t){return w}update(t,[e]){return Object.assign(t.element.style,e),w}},T=W(Mt);var D=29,Ae=8,xe=7.9,ke=26,Ot=class extends b{static{this.properties={rows:{attribute:!1},total:{attribute:!1},follows:{attribute:!1},picked:{state:!0}}}#t=new ResizeObserver(()=>this.requestUpdate());constructor(){super(),this.picked=-1}createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#t.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.#t.disconnect()}get#s(){return this.querySelector(".scroller")}updated(){let t=this.#s;this.follows&&t&&(t.scrollTop=t.scrollHeight)}render(){let t=[...this.rows.columns],e=this.#s,[s,r]=[e?.scrollTop??0,e?.clientHeight||600],n=Math.max(0,Math.min(Math.floor(s/D),this.rows.length)-Ae),o=Math.min(this.rows.length,Math.ceil((s+r)/D)+Ae),a=[];for(let h=n;h<o;h+=1){let m=this.rows.at(h);m&&a.push(this.#i(h,m,t))}let c=Math.max(5,String(this.rows.total).length+2)*xe+ke,p=t.map(([,h])=>Math.round(h*xe+ke)),u=p.reduce((h,m)=>h+m,c);return l`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${()=>this.requestUpdate()}
      @keydown=${this.#r}
    >
      <div class="sizer" ${T({height:`${(this.rows.length+1)*D}px`})}>
        <table
          aria-rowcount=${this.rows.total+1}
          ${T({top:`${n*D}px`,minWidth:`${u}px`})}
        >
          <colgroup>
            <col ${T({width:`${c}px`})} />
            ${p.map(h=>l`<col ${T({width:`${h}px`})} />`)}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="number">#</th>
              ${t.map(([h])=>l`<th scope="col" title=${h}>${h}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${a}
          </tbody>
        </table>
      </div>
    </div>`}#i(t,e,s){if("from"in e){let n=`rows ${g(e.from)} to ${g(e.to)} came by and are not kept`;return l`<tr class="gap"><td colspan=${s.length+1}><span>${n}</span></td></tr>`}let r=new Map(tt(e.line));return l`<tr
      class=${t===this.picked?"picked":""}
      aria-rowindex=${e.row+1}
      @click=${()=>this.#n(t)}
      @dblclick=${()=>this.#e(t)}
    >
      <th scope="row" class="number">${g(e.row)}</th>
      ${s.map(([n])=>is(r.get(n)))}
    </tr>`}#n(t){this.picked=Math.max(0,Math.min(t,this.rows.length-1));let e=this.#s;if(!e)return;let s=this.picked*D,r=e.scrollTop+e.clientHeight-3*D;s<e.scrollTop?e.scrollTop=s:s>r&&(e.scrollTop+=s-r)}#e(t){let e=this.rows.at(t);!e||"from"in e||this.dispatchEvent(new CustomEvent("open-row",{detail:e,bubbles:!0}))}#r(t){let e=Math.floor((this.#s?.clientHeight??0)/D)-2,r={ArrowDown:1,ArrowUp:-1,PageDown:e,PageUp:-e,Home:-1/0,End:1/0}[t.key];if(t.key==="Enter")this.#e(this.picked);else if(r!==void 0)this.#n(Math.max(-1,this.picked)+r);else return;t.preventDefault()}};function is(i){if(i===void 0)return l`<td></td>`;let{kind:t,text:e}=we(i),s=e.length>300?`${e.slice(0,300)}…`:e;return l`<td class=${t} title=${e.length>30?s:d}>${s}</td>`}customElements.define("rs-table",Ot);var st=[0,4e6,1e6,25e4,5e4,1e4],Re=["pool","database","encode","client"],Te={waiting:"Waiting for the first row",running:"Streaming",complete:"Complete",unproved:"Ended, not proved whole",truncated:"Truncated",failed:"Failed",cancelled:"Cancelled"},rs={ndjson:"NDJSON (table)",json:"JSON",csv:"CSV",sse:"Server-sent events","json-seq":"JSON text sequence",arrow:"Arrow"},Ut=class extends b{static{this.properties={endpoint:{attribute:!1},query:{attribute:!1},isFollowing:{state:!0},isPaused:{state:!0},speed:{state:!0},language:{state:!0},said:{state:!0}}}#t=!1;#s=0;constructor(){super(),this.isFollowing=this.isPaused=!1,this.speed=this.language=0,this.said=""}createRenderRoot(){return this}willUpdate(t){let e=t.get("endpoint");e&&e.path!==this.endpoint.path&&this.#i()}disconnectedCallback(){super.disconnectedCallback(),this.#i()}#i(){this.run?.cancel(),this.run=void 0,this.isFollowing=this.isPaused=!1,this.said=""}#n=()=>{this.#t||(this.#t=!0,requestAnimationFrame(()=>{this.#t=!1,this.requestUpdate()}))};get#e(){let{formats:t}=this.endpoint,e=this.query.get("_format")??"";return t.includes(e)?e:t.includes("ndjson")?"ndjson":t[0]??""}get#r(){return this.endpoint.controls.has("_follow")&&this.query.get("_follow")==="1"}#o(){let t=this.endpoint.path,e=new URLSearchParams,s={};for(let o of this.endpoint.params){let a=this.query.get(o.name)??"";if(o.in==="path")t=t.replace(`{${o.name}}`,encodeURIComponent(a));else{if(a==="")continue;if(o.in==="header")s[o.name]=a;else for(let c of ns(o,a))e.append(o.name,c)}}let r=this.#e;r&&e.set("_format",r),ye.includes(r)&&this.endpoint.controls.has("_end")&&e.set("_end","1"),this.#r&&e.set("_follow","1");let n=new URL(t.replace(/^\//,"./"),le);return n.search=e.toString(),{url:n,headers:s}}#a(t,e){let s=new URLSearchParams(this.query);e===""?s.delete(t):s.set(t,e),this.query=s;let r=s.toString();history.replaceState(null,"",`#/endpoints${this.endpoint.path}${r&&`?${r}`}`)}async#l(t){t?.preventDefault(),this.run?.cancel(),this.isPaused=!1;let{url:e,headers:s}=this.#o();this.run=new wt({url:e,headers:s,format:this.#e},this.#n),this.isFollowing=this.#r,await this.#c(this.run,this.run.start())}async#c(t,e){t.limit=st[this.speed]??0,this.said="Running",this.requestUpdate(),await e,t===this.run&&(this.said=`${Te[t.state]}, ${g(t.rows.total)} rows. ${t.problem?.detail??t.why}`)}#h(t){this.speed=Number(t.target.value),this.run&&(this.run.limit=st[this.speed]??0)}#u(){this.isPaused=!this.isPaused,this.#s=this.run?.rows.total??0}async#d(t,e){await navigator.clipboard.writeText(e),this.said=`${t} copied`}render(){let{path:t,summary:e,needsToken:s}=this.endpoint;return l`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${os(t)}</h1>
        <button class="quiet" @click=${()=>this.#d("Link",location.href)}>Copy link</button>
      </header>
      ${e?l`<p class="summary">${e}</p>`:d}
      ${s&&!E()?l`<p class="note">It needs a token, which you have not entered.</p>`:d}
      ${this.#m()} ${this.run?this.#g(this.run):d} ${this.#b()} ${this.#y()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`}#m(){let{params:t,formats:e,controls:s}=this.endpoint,r=this.run?.isRunning??!1;return l`<form class="card" @submit=${this.#l}>
      ${t.length?l`<div class="fields">${fe(t,n=>n.name,n=>this.#f(n))}</div>`:l`<p class="quiet">It takes no parameters.</p>`}
      <div class="actions">
        ${e.length>1?l`<label class="inline"
              ><span>Format</span>
              <select @change=${n=>this.#a("_format",n.target.value)}>
                ${e.map(n=>l`<option value=${n} ?selected=${n===this.#e}>
                    ${rs[n]??n}
                  </option>`)}
              </select></label
            >`:d}
        ${s.has("_follow")?l`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${Q(this.#r)}
                @change=${n=>this.#a("_follow",n.target.checked?"1":"")}
              /><span>Live tail</span></label
            >`:d}
        <span class="grow"></span>
        ${r?l`<button type="button" class="stop" @click=${()=>this.run?.cancel()}>Cancel</button>`:l`<button type="submit" class="run">Run</button>`}
        <button type="button" @click=${this.#v} title="Save all of it to a file">Download</button>
      </div>
    </form>`}#f(t){let{name:e,schema:s,required:r,description:n}=t,o=`param-${e}`,a=this.query.get(e)??"",c=s.default===void 0||s.default===null?"":String(s.default),p=m=>this.#a(e,m.target.value),u=s.enum??s.items?.enum??(s.type==="boolean"?[!0,!1]:void 0),h=u&&s.type!=="array";return l`<div class="field">
      <label for=${o}
        >${e}${r?l`<span class="required" title="required">*</span>`:d}
        <span class="type">${X(s)}</span></label
      >
      ${h?l`<select id=${o} ?required=${r} aria-describedby="${o}-more" @change=${p}>
            <option value="" ?selected=${a===""}>${c||(r?"choose":"any")}</option>
            ${u.map(m=>l`<option value=${String(m)} ?selected=${a===String(m)}>${m}</option>`)}
          </select>`:l`<input
            id=${o}
            .value=${Q(a)}
            ?required=${r}
            placeholder=${c||as(t)}
            inputmode=${s.type==="integer"?"numeric":"text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${o}-more"
            @input=${p}
          />`}
      <small id="${o}-more">${ls(t,n)}</small>
    </div>`}#g(t){let e=t.elapsed,s=e>0?t.rows.total/e*1e3:0;return l`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${t.state}" data-state=${t.state}>${Te[t.state]}</span>
        ${t.isRows?et("rows",g(t.rows.total)):d}
        ${t.isRows?et("rows/s",g(s)):d} ${et("received",R(t.bytes))}
        ${et("time",H(e))}
        ${t.firstRow===void 0?d:et("first row",H(t.firstRow))}
        <span class="grow"></span>
        ${this.#p(t)}
      </div>
      ${t.why?l`<p class="warning" role="alert">This answer is not whole: ${t.why}.</p>`:d}
      ${t.state==="unproved"?l`<p class="note">
            Nothing tells whether this was the end of it: the answer was compressed on its way, and its format has no
            record at the end. NDJSON has one.
          </p>`:d}
      ${t.problem?cs(t.problem):d} ${hs(t)} ${this.#$(t)}
    </section>`}#p(t){let e=t.mark&&!t.isRunning&&t.state!=="complete";return l`${t.isRunning&&t.isRows?l`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#u}>
            ${this.isPaused?`Go on (${g(t.rows.total-this.#s)} new)`:"Pause"}
          </button>`:d}
      ${e?l`<button class="quiet" @click=${()=>this.#c(t,t.resume())}>
            Resume after row ${g(t.mark.rows)}
          </button>`:d}
      ${t.isRows?l`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${Q(this.isFollowing)}
              @change=${s=>this.isFollowing=s.target.checked}
            /><span>Keep the last row in sight</span></label
          >`:d}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${st.length-1}
          .value=${Q(String(this.speed))}
          aria-valuetext=${Pe(this.speed)}
          @input=${this.#h}
        /><output>${Pe(this.speed)}</output></label
      >`}#$(t){if(t.isRows){if(t.rows.total===0)return t.state==="complete"?l`<p class="empty">There are no rows.</p>`:d;let s=this.isPaused?this.#s:t.rows.total;return l`<rs-table
        .rows=${t.rows}
        .total=${s}
        .follows=${this.isFollowing&&!this.isPaused}
        @open-row=${this.#w}
      ></rs-table>`}if(t.asked.format==="arrow")return l`<p class="empty">Arrow is binary: download it to read it.</p>`;if(!t.text)return d;let e=t.bytes<=t.text.length*3&&t.text.length<1e5;return l`<pre class="text" tabindex="0" role="region" aria-label="The answer">${t.text}</pre>
      ${e?d:l`<p class="quiet">These are the first letters of ${R(t.bytes)}.</p>`}`}#w(t){let{row:e,line:s}=t.detail,r=this.querySelector("dialog")??document.createElement("dialog");r.replaceChildren(),r.ariaLabel=`Row ${e}`;let n=document.createElement("h2");n.textContent=`Row ${g(e)}`;let o=document.createElement("dl");for(let[c,p]of tt(s)){let[u,h]=[document.createElement("dt"),document.createElement("dd")];[u.textContent,h.textContent]=[c,p],o.append(u,h)}let a=document.createElement("button");a.textContent="Close",a.onclick=()=>r.close(),r.append(n,o,a),this.append(r),r.showModal()}#b(){let{url:t,headers:e}=this.#o(),s=_e(t,e,this.#e,E()!==""),{name:r,text:n}=s[this.language];return l`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${s.map(({name:o},a)=>l`<button
            class="tab"
            aria-pressed=${a===this.language}
            @click=${()=>this.language=a}
          >
            ${o}
          </button>`)}
        <span class="grow"></span>
        <button class="quiet" @click=${()=>this.#d(r,n)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${r}>${n}</pre>
    </section>`}#y(){let{columns:t}=this.endpoint;return t.length===0?d:l`<details class="card">
      <summary>${t.length} columns</summary>
      <dl class="columns">
        ${t.map(({name:e,schema:s})=>l`<dt>${e}</dt><dd>${X(s)}</dd>`)}
      </dl>
    </details>`}#v=async()=>{if(!this.querySelector("form")?.reportValidity())return;let{url:e,headers:s}=this.#o();e.searchParams.delete("_end"),e.searchParams.delete("_follow");let r=this.endpoint.path.replaceAll(/[^\w-]+/g,"-").replaceAll(/^-+|-+$/g,"")||"rows";this.endpoint.controls.has("_download")&&e.searchParams.set("_download",r);let n=document.createElement("a");if(n.download=`${r}.${this.#e||"txt"}`,n.href=e.href,E()||Object.keys(s).length>0){this.said="Downloading";try{let o=await x(e,{headers:s});if(!o.ok)throw new Error(`status ${o.status}`);n.href=URL.createObjectURL(await o.blob())}catch(o){this.said=`The download failed, nothing is saved: ${String(o)}`;return}}n.click(),this.said=`${n.download} is downloaded by the browser`}};function ns(i,t){return i.schema.type==="array"?t.split(",").map(e=>e.trim()):[t]}function os(i){return i.split(/(\{[^}]*\})/).map(t=>t.startsWith("{")?l`<em>${t}</em>`:t)}function as({schema:i,required:t}){let e={date:"2026-12-31","date-time":"2026-12-31T12:00:00Z",uuid:"00000000-0000-0000-0000-000000000000",duration:"PT10S"};return i.type==="array"?"1,2,3":e[i.format??""]??(t?"":"not given")}function ls({schema:i,in:t,name:e},s=""){let r=[i.minimum===void 0?"":`from ${i.minimum}`,i.maximum===void 0?"":`to ${i.maximum}`],n=t==="query"?"":t==="path"?"in the path":`header ${e}`;return[s,r.filter(Boolean).join(" "),n].filter(Boolean).join(" · ")}function et(i,t){return l`<span class="fact"><b>${t}</b> <span>${i}</span></span>`}var Pe=i=>st[i]?`${R(st[i])}/s`:"full speed";function cs({title:i,status:t,code:e,detail:s,hint:r,sqlstate:n}){return l`<div class="problem" role="alert">
    <h2>${t?l`<span>${t}</span>`:d} ${i??e??"It failed"}</h2>
    ${s?l`<p>${s}</p>`:d} ${r?l`<p class="hint">${r}</p>`:d}
    <p class="quiet">
      ${e?l`<a href=${new URL(`errors/${e}`,A).href} target="_blank" rel="noreferrer">What ${e} means</a>`:d}
      ${n?l` SQLSTATE ${n}`:d}
    </p>
  </div>`}function hs(i){let t=Object.entries(i.report?.ms??{}).filter(([n])=>Re.includes(n)),e=t.length?t:i.timing.filter(([n])=>Re.includes(n)),s=e.reduce((n,[,o])=>n+o,0),r=i.report&&i.isRunning?`The server has sent ${R(i.report.bytes)}.`:"";return s===0?r?l`<p class="quiet phases">${r}</p>`:d:l`<div class="phases">
    <div class="bar" aria-hidden="true">
      ${e.map(([n,o])=>l`<i class=${n} ${T({flexGrow:String(o/s)})}></i>`)}
    </div>
    <p class="quiet">
      ${t.length?"Where the server's time went:":"Until the first row:"}
      ${e.map(([n,o])=>l`<span class="key ${n}">${n} ${H(o)}</span> `)} ${r}
    </p>
  </div>`}customElements.define("rs-endpoint",Ut);var ds=2e3,ps=450,us=5,it=["pool","database","encode","client"],y=[],ms=/^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;function fs(i){let t=new Map;for(let e of i.split(`
`)){let s=ms.exec(e);if(!s)continue;let[r,n,o]=[s[1],s.at(-2)??"",Number(s.at(-1))],a=t.get(r)??new Map;t.set(r,a.set(n,o))}return t}var j=(i,t)=>new RegExp(`(?:^|,)${t}="((?:[^"\\\\]|\\\\.)*)"`).exec(i)?.[1]??"";function I(i,t,e=()=>!0){let s=0;for(let[r,n]of i.metrics.get(t)??[])e(r)&&(s+=n);return s}function bt(i,t){let[e,s]=[y[i],y[Math.max(0,i-us)]],r=(e.at-s.at)/1e3;return r>0?Math.max(0,t(e)-t(s))/r:0}var Lt=class extends b{static{this.properties={failure:{state:!0},refused:{state:!0},streams:{state:!0}}}#t=0;#s=!1;createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#i(),this.#t=setInterval(()=>{this.#i()},ds)}disconnectedCallback(){super.disconnectedCallback(),clearInterval(this.#t)}async#i(){if(!this.#s){this.#s=!0;try{let t=await x(new URL("metrics",A),{headers:{Accept:"text/plain"}});if(!t.ok){this.failure=await F(t);return}y.push({at:Date.now(),metrics:fs(await t.text())}),y.length>ps&&y.shift(),this.streams=await mt("streams").catch(()=>{}),this.failure=void 0}catch(t){this.failure={title:"The server cannot be reached",detail:String(t)}}finally{this.#s=!1}this.requestUpdate()}}async#n(t){let e=await x(new URL(`streams/${t}`,A),{method:"DELETE"}),s=e.ok||e.status===404||e.status===409;this.refused=s?void 0:await F(e),await this.#i()}render(){return l`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">Since you opened this view, up to 15 minutes; asked for every two seconds.</p>
      ${this.failure?this.#e(this.failure):d} ${y.length?this.#o():d}
      ${this.refused?this.#e(this.refused):d}
      ${this.streams?.streams.length?this.#r(this.streams):d}
    </article>`}#e({status:t,title:e,detail:s}){let r=t===404?"With `admin_listen` the metrics are at that port alone, and so is this view.":t===401||t===403?"Enter a token that [admin] names in rowstream.toml.":"";return l`<div class="card problem" role="alert">
      <h2>${t?l`<span>${t}</span>`:d} ${e}</h2>
      <p>${s}</p>
      <p class="hint">${r}</p>
    </div>`}#r({streams:t,more:e}){return l`<section class="card live" aria-label="Each stream in flight" tabindex="0">
      <table>
        <thead>
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">Format</th>
            <th scope="col" class="number">Runs for</th>
            <th scope="col" class="number">Rows</th>
            <th scope="col" class="number">Sent</th>
            <th scope="col">Where the time went</th>
            <th scope="col"><span class="quiet">Stop</span></th>
          </tr>
        </thead>
        <tbody>
          ${t.map(({id:s,endpoint:r,format:n,started:o,rows:a,bytes:c,ms:p})=>l`<tr>
              <th scope="row">${r}</th>
              <td>${n}</td>
              <td class="number">${H(Math.max(0,Date.now()-Date.parse(o)))}</td>
              <td class="number">${g(a)}</td>
              <td class="number">${R(c)}</td>
              <td>${Ce(it.map(u=>(p[u]??0)/1e3))}</td>
              <td>
                <button class="stop" aria-label="Stop the stream ${s} of ${r}" @click=${()=>this.#n(s)}>
                  Stop
                </button>
              </td>
            </tr>`)}
        </tbody>
      </table>
      ${e?l`<p class="quiet">and ${g(e)} more</p>`:d}
    </section>`}#o(){let t=y.at(-1),e=p=>j(p,"endpoint")!=="/_rowstream/",s=p=>e(p)&&j(p,"outcome")==="complete",r=p=>e(p)&&j(p,"outcome")!=="complete",n=(p,u=e)=>h=>bt(h,m=>I(m,p,u)),o=p=>u=>I(y[u],p),a=p=>bt(p,u=>I(u,"process_cpu_seconds_total"))*100,c=I(t,"rowstream_permits_max");return l`<div class="charts">
        ${M("Streams in flight",o("rowstream_streams_running"),g,`of ${g(c)} at most`)}
        ${M("Rows per second",n("rowstream_rows_total"),g)}
        ${M("Sent per second",n("rowstream_sent_bytes_total"),R)}
        ${M("Requests per second",n("rowstream_requests_total",s),Nt,"that were complete")}
        ${M("Other ends per second",n("rowstream_requests_total",r),Nt,"not complete")}
        ${M("Memory",o("process_resident_memory_bytes"),R,"resident")}
        ${M("Processor",a,p=>`${p.toFixed(0)} %`,"of one core")}
        ${[...(t.metrics.get("rowstream_pool_used")??new Map).keys()].map(gs)}
      </div>
      ${$s(t)}`}};function gs(i){let t=(r,n=y.length-1)=>y[n].metrics.get(r)?.get(i)??0,e=t("rowstream_pool_waiting"),s=`of ${t("rowstream_pool_max")}, ${e} waiting`;return M(`Pool of ${j(i,"source")}`,r=>t("rowstream_pool_used",r),g,s)}var Nt=i=>i<10?i.toFixed(1):g(i);function M(i,t,e,s=""){let r=y.map((p,u)=>t(u)),n=Math.max(...r,1e-9),o=p=>200-(y.length-1-p)*(200/Math.max(60,y.length-1)),a=r.map((p,u)=>`${o(u).toFixed(1)},${(46-p/n*42).toFixed(1)}`),c=`${o(0).toFixed(1)},48 ${a.join(" ")} 200,48`;return l`<section class="card chart" aria-label=${i}>
    <h2>${i}</h2>
    <p><b>${e(r.at(-1)??0)}</b> <span class="quiet">${s}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${e(n)}">
      ${se`<polygon points=${c}></polygon><polyline points=${a.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${e(Math.max(...r))}</p>
  </section>`}function $s(i){let t=[...(i.metrics.get("rowstream_streams_running")??new Map).keys()],e=y.length-1,s=t.map(r=>{let n=j(r,"endpoint"),o=p=>j(p,"endpoint")===n,a=p=>bt(e,u=>I(u,p,o)),c=it.map(p=>bt(e,u=>I(u,"rowstream_phase_seconds_total",h=>o(h)&&j(h,"phase")===p)));return{path:n,running:I(i,"rowstream_streams_running",o),of:a,phases:c}});return l`<section class="card live" aria-label="Endpoints now" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col" class="number">Streams</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Rows/s</th>
          <th scope="col">Where the time goes</th>
        </tr>
      </thead>
      <tbody>
        ${s.map(({path:r,running:n,of:o,phases:a})=>l`<tr>
            <th scope="row"><a href="#/endpoints${r}">${r}</a></th>
            <td class="number">${g(n)}</td>
            <td class="number">${Nt(o("rowstream_requests_total"))}</td>
            <td class="number">${g(o("rowstream_rows_total"))}</td>
            <td>${Ce(a)}</td>
          </tr>`)}
      </tbody>
    </table>
    <p class="quiet">${it.map(r=>l`<span class="key ${r}">${r}</span>`)}</p>
  </section>`}function Ce(i){let t=i.reduce((s,r)=>s+r,0);if(t===0)return d;let e=i.map((s,r)=>`${it[r]} ${H(s*1e3)}`).join(", ");return l`<div class="bar" role="img" aria-label=${e}>
    ${i.map((s,r)=>l`<i class=${it[r]} ${T({flexGrow:String(s/t)})}></i>`)}
  </div>`}customElements.define("rs-live",Lt);var Me="rowstream.theme",qt=["auto","light","dark"],Ht=class extends b{constructor(){super();this.query=new URLSearchParams;this.search=this.path="",this.theme=localStorage.getItem(Me)??"auto",this.#t(),this.#e(),addEventListener("hashchange",()=>this.#t()),this.#s()}static{this.properties={endpoints:{state:!0},failure:{state:!0},search:{state:!0},path:{state:!0},theme:{state:!0}}}createRenderRoot(){return this}#t(){let[e="",s=""]=location.hash.slice(1).split(/\?(.*)/s);this.query=new URLSearchParams(s),this.path=ws(e)||"/endpoints",this.requestUpdate()}async#s(){try{this.endpoints=ae(await mt("openapi.json")),this.failure=void 0}catch(e){let s=!(e instanceof Error);this.failure=s?e:{title:"The server cannot be reached",detail:e.message}}}get#i(){return this.endpoints?.find(({path:e})=>this.path===`/endpoints${e}`)}#n(){this.theme=qt[(qt.indexOf(this.theme)+1)%qt.length],localStorage.setItem(Me,this.theme),this.#e()}#e(){document.documentElement.dataset.theme=this.theme}updated(){let e=this.#i;document.title=e?`${e.path} · Rowstream`:"Rowstream console"}render(){let e=this.#i;return l`<a class="skip" href="#main" @click=${this.#h}>Skip the navigation</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${bs} Rowstream</a>
        <a class="tab" href="#/endpoints" aria-current=${this.path==="/live"?d:"page"}>Endpoints</a>
        <a class="tab" href="#/live" aria-current=${this.path==="/live"?"page":d}>Live</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#n}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#a}>${E()?"Token ✓":"Token"}</button>
      </header>
      ${this.path==="/live"?l`<div class="page wide"><main id="main" tabindex="-1"><rs-live></rs-live></main></div>`:l`<div class="page ${e?"has-chosen":""}">
            <nav aria-label="Endpoints">${this.#r()}</nav>
            <main id="main" tabindex="-1">
              ${e?l`<rs-endpoint .endpoint=${e} .query=${this.query}></rs-endpoint>`:this.#o()}
            </main>
          </div>`}
      ${this.#l()}`}#r(){if(this.failure)return l`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${()=>this.#s()}>Try again</button>
      </div>`;let e=this.search.toLowerCase().split(/\s+/),s=(this.endpoints??[]).filter(({path:r,summary:n})=>e.every(o=>`${r} ${n}`.toLowerCase().includes(o)));return l`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${r=>this.search=r.target.value}
      />
      <ul>
        ${s.map(({path:r,summary:n,needsToken:o})=>l`<li>
            <a href="#/endpoints${r}" aria-current=${this.path===`/endpoints${r}`?"page":d}>
              <code>${r}</code>${o?l`<span class="lock" title="needs a token">token</span>`:d}
              ${n?l`<small>${n}</small>`:d}
            </a>
          </li>`)}
      </ul>
      ${this.endpoints&&s.length===0?l`<p class="quiet">${this.search?"None is called so.":"There is none that you may call."}</p>`:d}`}#o(){let e=this.endpoints&&this.path!=="/endpoints";return l`<div class="welcome">
      <h1>${e?"There is no such endpoint":"SQL as streaming HTTP endpoints"}</h1>
      <p>
        ${e?"It may need a token, or it is gone. Choose another one.":"Choose an endpoint, fill in its parameters and run it: rows are shown as they come, in constant memory."}
      </p>
    </div>`}#a(){this.querySelector("dialog.token").showModal()}#l(){return l`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#c}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${E()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${()=>this.querySelector("dialog.token").close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`}#c(e){e.preventDefault(),ce(this.querySelector("#token").value.trim()),this.querySelector("dialog.token").close(),this.#s(),this.requestUpdate()}#h(e){e.preventDefault(),this.querySelector("main").focus()}};function ws(i){try{return decodeURI(i)}catch{return i}}var bs=l`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;customElements.define("rs-app",Ht);
/*! Bundled license information:

@lit/reactive-element/css-tag.js:
  (**
   * @license
   * Copyright 2019 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

@lit/reactive-element/reactive-element.js:
lit-html/lit-html.js:
lit-element/lit-element.js:
lit-html/directive.js:
lit-html/directives/repeat.js:
  (**
   * @license
   * Copyright 2017 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/is-server.js:
  (**
   * @license
   * Copyright 2022 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directive-helpers.js:
lit-html/directives/live.js:
  (**
   * @license
   * Copyright 2020 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)
*/
